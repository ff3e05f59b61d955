package simulate

// A Fault breaks one rule on purpose, to prove that the checks can fail.
type Fault int

// The faults, and the rules that they break.
const (
	NoFault        Fault = iota
	AnswerEarly          // the broker answers before the commit: I3
	LoseCommits          // the store says that a commit is durable, and it is not: I3
	TrustFromReply       // a holder counts its time from the reply: I8
	IgnoreSleep          // a holder looks at one clock only: I8
	FastClock            // the broker's clock runs twice as fast: I8
	ReleaseEarly         // a holder releases while its work still runs: I1
	AgentGuesses         // an agent vouches for what it cannot see: I1
	StaleBoots           // an agent says what the broker knew only when its report arrives: I1
	EarlyHandover        // a revoked lease's units go on long before its promised end: I1
	FenceFromStore       // a restore repeats fences: I2
	ForgetSoon           // ended requests are forgotten at once: I4
	ExtendAgain          // every restart extends every lease: I5
	MissLeaves           // the broker does not notice that a call has broken: I7
	NoCancel             // a client that gives up does not cancel: I9
)
