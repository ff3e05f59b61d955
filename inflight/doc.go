// Package inflight owns operations that somebody else completes: a write given to a kernel, a
// call on a wire, a frame on a device, and the buffers they use meanwhile.
//
// What it does not do: it cannot stop a source. A cancel is a request, and only the completion
// ends an operation; a source that never completes keeps its operation open and its buffer
// locked for ever, and all that is left is to name it ([Set.Drain]). It cannot stop a source
// that kept a slice of the buffer from writing to it after it said "complete"; the poisoning
// pool of package inflighttest finds such a source in tests. It contains no panic: a panic in
// one of your functions goes on in the goroutine that called it, after the books are right. A
// process that dies drains nothing.
//
// [Start] registers an operation with its source. The source gets a [Completer], of which one
// call counts; the caller gets an [Op], to cancel, wait for and take the result with the buffer.
// Between the two a [Buffer] can be touched by neither its old owner nor anybody else. A [Set]
// owns the operations of one thing, such as a file or a connection: Drain ends them, and
// [Set.Destroy] ends the thing, which is refused before that.
//
// An operation has settled when its completion came and its registration, its cancel function
// and its OnComplete have returned. Only then is the buffer unlocked, does a wait end and can
// the result be taken. At most one function of an operation runs at any time: what becomes due
// meanwhile is done afterwards, by whoever runs that one. So they never nest, and none is
// called from inside the registration.
//
// [Loop] is a goroutine, on request on its own thread, that values can be bound to ([Bind]):
// they are used and destroyed there, and it does not end before. [Shutdown] stops things in
// stages. [AfterFunc] is context.AfterFunc with a stop that waits.
//
// What happens before what: the registration before the call of the cancel function, the
// completion before OnComplete, all four before Done is closed and before Wait and Take return,
// and Take or Dispose before Drain returns. What was written before the one before can be read
// without a lock after the other.
//
// An operation has one mutex rather than one atomic word: what must be decided together (who
// completed it, what runs, who takes the result) is decided under it, and no function of yours
// is called under it. An operation is never used again for another, so a completer needs no
// generation to be refused once its operation has ended; only the handles have one. Starting
// and completing costs two allocations: the operation, and the channel when somebody waits.
package inflight
