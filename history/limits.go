package history

import (
	"fmt"
	"strings"
	"unicode/utf8"

	pb "github.com/engined/engined/proto/enginepb"
)

// The limits of what a history may hold, for client, worker and engine alike:
// checked before anything is sent, and again by the engine. Sizes are in bytes.
const (
	// MaxPayload bounds the data of one payload.
	MaxPayload = 2 << 20
	// MaxID bounds what a user names by hand: namespace, workflow id, update id.
	MaxID = 1000
	// MaxRequestID bounds a request id.
	MaxRequestID = 1000
	// MaxName bounds the name of a type, a queue, a signal, a codec.
	MaxName = 255
	// MaxOp bounds the id of an operation. It grows with the depth of nested
	// coroutines, not with what the code has done.
	MaxOp = 1000
	// MaxIdentity bounds the name by which a caller calls itself.
	MaxIdentity = 1000
	// MaxSource bounds a place in the code, "shop.go:42".
	MaxSource = 255
	// MaxReason bounds the reason of a cancel or terminate.
	MaxReason = 16 << 10
	// MaxMessage is where an error's message is cut.
	MaxMessage = 16 << 10
	// MaxFailure bounds a whole encoded failure. What sdk/failure writes is far
	// below; this refuses a peer that does not cut.
	MaxFailure = 2 << 20
	// MaxHeader bounds the keys and values of a header together.
	MaxHeader = 64 << 10
	// MaxAttemptLog is how many of the newest attempts a Tally lists.
	MaxAttemptLog = 20
)

// LimitError says that something is longer than it may be.
type LimitError struct {
	// What is the thing, as a user calls it: "the workflow id".
	What string
	// Have and Limit are in bytes (of a list: in elements).
	Have, Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is %d long, the limit is %d: shorten it, or keep the data elsewhere and pass a reference", e.What, e.Have, e.Limit)
}

// NameError says that an id or a name is none.
type NameError struct {
	What string
	// Why completes the sentence "What …": "is empty".
	Why string
}

func (e *NameError) Error() string { return e.What + " " + e.Why }

// CheckID checks an id that a user gives: 1 to MaxID bytes, valid UTF-8, no NUL.
// what names it in the error, which is a *LimitError or a *NameError.
func CheckID(what, s string) error { return checkString(what, s, MaxID, required) }

// CheckRequestID is CheckID for a request id, up to MaxRequestID bytes.
func CheckRequestID(s string) error {
	return checkString("the request id", s, MaxRequestID, required)
}

// CheckName is CheckID for the name of a type or a queue, up to MaxName bytes.
func CheckName(what, s string) error { return checkString(what, s, MaxName, required) }

// CheckPayload checks a payload's size and names; nil is a payload without
// data. The error is a *LimitError or a *NameError.
func CheckPayload(what string, p *pb.Payload) error {
	if n := len(p.GetData()); n > MaxPayload {
		return &LimitError{What: what, Have: n, Limit: MaxPayload}
	}
	if len(p.GetHash()) > 0 || p.GetSize() != 0 {
		return &NameError{What: what, Why: "names data that is kept elsewhere, which this release does not know"}
	}
	if err := checkString("the encoding of "+what, p.GetEncoding(), MaxName, optional); err != nil {
		return err
	}
	return checkString("the type of "+what, p.GetType(), MaxName, optional)
}

// CheckScheduled checks all that a schedule of an activity names and bounds.
// The error is a *LimitError or a *NameError.
func CheckScheduled(a *pb.ActivityScheduled) error {
	u := a.GetUndo()
	err := first(
		checkString("the operation", a.GetOp(), MaxOp, required),
		CheckName("the activity type", a.GetType()),
		checkString("the queue", a.GetQueue(), MaxName, optional),
		checkString("the source", a.GetSource(), MaxSource, optional),
		CheckPayload("the input", a.GetInput()),
		CheckHeader(a.GetHeader()),
		checkPolicy("the activity", a.GetRetry(), a.GetTimeouts()),
	)
	if err != nil || u == nil {
		return err
	}
	return first(
		CheckName("the type of the undo", u.GetType()),
		checkString("the queue of the undo", u.GetQueue(), MaxName, optional),
		checkPolicy("the undo", u.GetRetry(), u.GetTimeouts()),
	)
}

func checkPolicy(what string, r *pb.RetryPolicy, t *pb.Timeouts) error {
	switch {
	case r.GetAttempts() < -1:
		return &NameError{What: fmt.Sprintf("the number of attempts of %s, %d,", what, r.GetAttempts()), Why: "is below -1 (which is without end)"}
	case r.GetBase() < 0, r.GetCap() < 0:
		return &NameError{What: "a delay in the retry policy of " + what, Why: "is negative"}
	case t.GetStartToClose() < 0, t.GetScheduleToClose() < 0, t.GetScheduleToStart() < 0, t.GetHeartbeat() < 0:
		return &NameError{What: "a time limit of " + what, Why: "is negative"}
	}
	return nil
}

// CheckHeader checks the header of a run or an activity: up to MaxHeader bytes of
// UTF-8, keys and values together. The error is a *LimitError or a *NameError.
func CheckHeader(h map[string]string) error {
	n, bad := 0, false
	for k, v := range h {
		n += len(k) + len(v)
		bad = bad || !utf8.ValidString(k) || !utf8.ValidString(v)
	}
	switch {
	case bad:
		return &NameError{What: "the header", Why: "is not valid UTF-8"}
	case n > MaxHeader:
		return &LimitError{What: "the header", Have: n, Limit: MaxHeader}
	}
	return nil
}

// presence says whether a string may be empty.
type presence bool

const (
	required presence = true
	optional presence = false
)

func checkString(what, s string, limit int, p presence) error {
	switch {
	case s == "" && p == required:
		return &NameError{What: what, Why: "is empty"}
	case len(s) > limit:
		return &LimitError{What: what, Have: len(s), Limit: limit}
	case !utf8.ValidString(s):
		return &NameError{What: what, Why: "is not valid UTF-8"}
	case strings.IndexByte(s, 0) >= 0:
		return &NameError{What: what, Why: "contains a NUL byte"}
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckText checks a text that may be empty, such as a reason or an identity:
// up to MaxReason bytes.
func CheckText(what, s string) error { return checkString(what, s, MaxReason, optional) }
