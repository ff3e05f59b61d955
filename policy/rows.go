package policy

import "github.com/berth-dev/berth/lease"

// bodyAndCleanupFailed is the code around two errors of which the body's
// decides.
const bodyAndCleanupFailed = "LEASE_BODY_AND_CLEANUP_FAILED"

// rows says what each code means. It never changes.
var rows = map[string]Policy{
	// Requests.
	string(lease.CodeRequestInvalid):  {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodeNameInvalid):     {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodeTTLOutOfRange):   {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodePoolUnknown):     {Refused, Never, ExitInvalid, NotFound, Acked},
	string(lease.CodeUnsatisfiable):   {Refused, Never, ExitInvalid, FailedPrecondition, Acked},
	string(lease.CodeRequestMismatch): {Refused, NewID, ExitInvalid, AlreadyExists, Nak},
	string(lease.CodeNoCapacity):      {NoCapacity, Later, ExitNoCapacity, ResourceExhausted, Nak},
	string(lease.CodeTimedOut):        {TimedOut, Later, ExitTimedOut, DeadlineExceeded, Nak},
	string(lease.CodeAbsent):          {TimedOut, NewID, ExitTimedOut, Aborted, Nak},
	string(lease.CodeCancelled):       {Cancelled, Never, ExitCancelled, Canceled, Nak}, // a consumer whose owner no longer wants the work acknowledges
	string(lease.CodeTooManyShapes):   {NoCapacity, Later, ExitNoCapacity, ResourceExhausted, Nak},
	string(lease.CodeTooManyWaiters):  {NoCapacity, Later, ExitNoCapacity, ResourceExhausted, Nak},
	string(lease.CodeSessionUnknown):  {Refused, NewID, ExitInvalid, FailedPrecondition, Nak}, // in a new session
	string(lease.CodeFinished):        {Refused, NewID, ExitInvalid, FailedPrecondition, Nak},
	string(lease.CodeQueued):          {NoCapacity, SameID, ExitNoCapacity, ResourceExhausted, Nak},

	// Leases.
	string(lease.CodeLeaseMissing):   {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodeLeaseUnknown):   {Lost, NewID, ExitLost, NotFound, Nak},
	string(lease.CodeLeaseForeign):   {Refused, Never, ExitInvalid, PermissionDenied, Acked},
	string(lease.CodeLeaseReleased):  {Lost, NewID, ExitLost, FailedPrecondition, Nak},
	string(lease.CodeLeaseAbandoned): {Lost, NewID, ExitLost, FailedPrecondition, Nak},
	string(lease.CodeLeaseExpired):   {Lost, NewID, ExitLost, FailedPrecondition, Nak},
	string(lease.CodeLeaseRevoked):   {Lost, Later, ExitLost, FailedPrecondition, Nak}, // somebody wanted the slot back
	string(lease.CodeLeaseLost):      {Lost, NewID, ExitLost, Aborted, Nak},
	string(lease.CodeLeaseClosed):    {Internal, Never, ExitBerth, FailedPrecondition, Nak}, // a fault of the program that holds it

	// Pools and operators.
	string(lease.CodePoolsInvalid):   {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodeSourceForeign):  {Refused, Never, ExitInvalid, PermissionDenied, Acked},
	string(lease.CodeSlotUnknown):    {Refused, Never, ExitInvalid, NotFound, Acked},
	string(lease.CodeLeaseStands):    {Refused, Never, ExitInvalid, FailedPrecondition, Acked},
	string(lease.CodeNotQuarantined): {Refused, Never, ExitInvalid, FailedPrecondition, Acked},
	string(lease.CodeNotCleanable):   {Refused, Later, ExitInvalid, FailedPrecondition, Nak},
	string(lease.CodeProofRefused):   {Refused, Never, ExitInvalid, FailedPrecondition, Acked},
	string(lease.CodeAmbiguous):      {Invalid, Never, ExitInvalid, InvalidArgument, Acked},

	// The broker, its store and the way to it.
	string(lease.CodeOutcomeUnknown): {Unavailable, SameID, ExitBerth, NotReachable, Nak},
	string(lease.CodeUnavailable):    {Unavailable, SameID, ExitBerth, NotReachable, Nak},
	string(lease.CodeStopped):        {Unavailable, Later, ExitBerth, NotReachable, Nak},
	string(lease.CodeReplyInvalid):   {Internal, Later, ExitBerth, InternalFault, Nak},
	string(lease.CodeCompacted):      {Refused, Never, ExitInvalid, OutOfRange, Acked}, // list anew, then watch from there
	string(lease.CodeStoreFull):      {Unavailable, Later, ExitBerth, ResourceExhausted, Nak},
	string(lease.CodeStoreInUse):     {Unavailable, Later, ExitBerth, FailedPrecondition, Nak},
	string(lease.CodeStoreNewer):     {Unavailable, Never, ExitBerth, FailedPrecondition, Nak},
	string(lease.CodeStoreConflict):  {Unavailable, SameID, ExitBerth, NotReachable, Nak},
	string(lease.CodeStoreFailed):    {Unavailable, SameID, ExitBerth, NotReachable, Nak},
	string(lease.CodeStoreCorrupt):   {Internal, Never, ExitBerth, DataLoss, Nak},
	string(lease.CodeInternal):       {Internal, Never, ExitBerth, InternalFault, Nak},

	// Render jobs.
	string(lease.CodeJobInvalid):       {Invalid, Never, ExitInvalid, InvalidArgument, Acked},
	string(lease.CodeSourceMissing):    {Input, Never, ExitFailed, NotFound, Acked},
	string(lease.CodeSourceUnreadable): {Input, Never, ExitFailed, InvalidArgument, Acked},
	string(lease.CodeRendererMissing):  {Failed, Later, ExitMissing, FailedPrecondition, Nak}, // another host may have it
	string(lease.CodeRendererFailed):   {Failed, Never, ExitFailed, Aborted, Acked},
	string(lease.CodeRendererTimedOut): {Failed, Never, ExitFailed, Aborted, Acked},
	string(lease.CodeOutputFailed):     {Failed, Later, ExitFailed, Aborted, Nak},
	string(lease.CodeOutputInvalid):    {Failed, Never, ExitFailed, Aborted, Acked},

	// Package guard.
	"LEASE_ACQUIRE_CANCELLED": {Cancelled, Never, ExitCancelled, Canceled, Nak},
	"LEASE_ACQUIRE_THROWN":    {Internal, Never, ExitBerth, InternalFault, Nak},
	"LEASE_BODY_CANCELLED":    {Cancelled, Never, ExitCancelled, Canceled, Nak},
	"LEASE_BODY_THROWN":       {Failed, Never, ExitFailed, Aborted, Acked},
	"LEASE_CLEANUP_TIMEOUT":   {Release, Never, ExitBerth, InternalFault, Acked},
	"LEASE_CLEANUP_THROWN":    {Release, Never, ExitBerth, InternalFault, Acked},
	bodyAndCleanupFailed:      {Failed, Never, ExitFailed, Aborted, Acked},
}
