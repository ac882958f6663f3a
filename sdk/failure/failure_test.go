package failure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"

	pb "github.com/engined/engined/proto/enginepb"
)

var errDeclined = errors.New("card declined")

type limitError struct {
	Cents int64
	Err   error
}

func (e *limitError) Error() string { return fmt.Sprintf("over the limit by %d: %v", e.Cents, e.Err) }
func (e *limitError) Unwrap() error { return e.Err }

type addressError struct{ Line string }

func (e addressError) Error() string { return "bad address: " + e.Line }

type unregistered struct{ N int }

func (e *unregistered) Error() string { return fmt.Sprint("unregistered ", e.N) }

type unencodable struct{ C chan int }

func (*unencodable) Error() string { return "unencodable" }

func init() {
	failure.Register("test.ErrDeclined", errDeclined)
	failure.RegisterType[*limitError]("test.LimitError")
	failure.RegisterType[addressError]("test.AddressError")
	failure.RegisterType[*unencodable]("test.Unencodable")
}

// cross sends err over the wire n times, as activity, workflow and client do.
func cross(t *testing.T, err error, n int) error {
	t.Helper()
	for range n {
		data, mErr := proto.Marshal(failure.Encode(err, nil))
		if mErr != nil {
			t.Fatal(mErr)
		}
		var f pb.Failure
		if uErr := proto.Unmarshal(data, &f); uErr != nil {
			t.Fatal(uErr)
		}
		err = failure.Decode(&f, nil)
	}
	return err
}

func TestErrorsKeepTheirIdentityAtEachHop(t *testing.T) {
	for name, in := range map[string]error{
		"itself":   errDeclined,
		"wrapped":  fmt.Errorf("charge: %w", errDeclined),
		"joined":   errors.Join(errors.New("first"), errDeclined),
		"twice":    fmt.Errorf("%w and %w", errors.New("first"), errDeclined),
		"struct":   &limitError{Cents: 9007199254740993, Err: errDeclined},
		"final":    failure.Final(errDeclined),
		"retry":    failure.RetryAfter(errDeclined, time.Second),
		"deeper":   fmt.Errorf("a: %w", fmt.Errorf("b: %w", failure.Final(fmt.Errorf("c: %w", errDeclined)))),
		"by value": errors.Join(addressError{Line: "x"}, errDeclined),
	} {
		for hops := 1; hops <= 3; hops++ {
			out := cross(t, in, hops)
			if !errors.Is(out, errDeclined) {
				t.Errorf("%s: not errDeclined after %d hops: %v", name, hops, out)
			}
			if out.Error() != in.Error() {
				t.Errorf("%s: message after %d hops is %q, was %q", name, hops, out, in)
			}
			if failure.IsFinal(out) != failure.IsFinal(in) || failure.Delay(out) != failure.Delay(in) {
				t.Errorf("%s: final or delay lost after %d hops", name, hops)
			}
		}
	}
}

func TestErrorStructsKeepFieldsAndCause(t *testing.T) {
	out := cross(t, fmt.Errorf("pay: %w", &limitError{Cents: 9007199254740993, Err: errDeclined}), 2)
	var le *limitError
	if !errors.As(out, &le) || le.Cents != 9007199254740993 || !errors.Is(le, errDeclined) {
		t.Fatalf("limitError is %+v in %v", le, out)
	}
	out = cross(t, addressError{Line: "Elm St"}, 2)
	var ae addressError
	if !errors.As(out, &ae) || ae.Line != "Elm St" {
		t.Errorf("addressError is %+v", ae)
	}
}

func TestWellKnownErrorsMatch(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		if out := cross(t, fmt.Errorf("call: %w", want), 2); !errors.Is(out, want) {
			t.Errorf("%v does not match", want)
		}
	}
}

func TestUnregisteredErrorsMatchByTypeName(t *testing.T) {
	in := fmt.Errorf("x: %w", &unregistered{7})
	for hops := range 3 {
		out := cross(t, in, hops)
		if !failure.IsType(out, "*failure_test.unregistered") || failure.IsType(out, "other") {
			t.Errorf("no match after %d hops: %v", hops, out)
		}
		if !failure.IsType(cross(t, errDeclined, hops), "test.ErrDeclined") {
			t.Errorf("the registered name does not match after %d hops", hops)
		}
	}
	var fe *failure.Error
	if out := cross(t, in, 1); !errors.As(out, &fe) || fe.Message != "x: unregistered 7" {
		t.Errorf("decoded %+v", fe)
	}
}

func TestCausesKeepTheirOrder(t *testing.T) {
	f := failure.Encode(cross(t, errors.Join(errors.New("a"), errDeclined, errors.New("c")), 2), nil)
	var got []string
	for _, c := range f.Causes {
		got = append(got, c.Message)
	}
	if s := strings.Join(got, ","); s != "a,card declined,c" {
		t.Errorf("causes %s", s)
	}
}

func TestFinalStaysFinalThroughAnyWrapping(t *testing.T) {
	base := failure.Final(errors.New("no"))
	for name, err := range map[string]error{
		"errorf":  fmt.Errorf("a: %w", base),
		"join":    errors.Join(errors.New("b"), base),
		"struct":  &limitError{Err: base},
		"retry":   failure.RetryAfter(base, time.Second),
		"crossed": fmt.Errorf("c: %w", cross(t, base, 1)),
	} {
		if !failure.IsFinal(err) || !failure.Encode(err, nil).Final {
			t.Errorf("%s: not final", name)
		}
	}
	for _, err := range []error{nil, errDeclined, failure.RetryAfter(errDeclined, 1), cross(t, errDeclined, 1)} {
		if failure.IsFinal(err) {
			t.Errorf("%v is final", err)
		}
	}
	if failure.Final(nil) != nil || failure.RetryAfter(nil, 1) != nil || failure.Encode(nil, nil) != nil || failure.Decode(nil, nil) != nil {
		t.Error("nil became an error")
	}
}

// marked is a sentinel that is a mark itself, and comes back as such.
var marked = failure.Final(errors.New("sold out"))

func init() { failure.Register("test.Marked", marked) }

func TestMarksCountWhereTheyWereSet(t *testing.T) {
	asked := failure.RetryAfter(failure.Final(errDeclined), time.Hour)
	over := &pb.Failure{Type: "test.Marked", Message: "sold out", Final: true, RetryAfter: 7}
	for name, c := range map[string]struct {
		err   error
		final bool
		after time.Duration
	}{
		"nil":             {nil, false, 0},
		"unmarked":        {errDeclined, false, 0},
		"here":            {fmt.Errorf("a: %w", errors.Join(errDeclined, asked)), true, time.Hour},
		"outermost delay": {failure.RetryAfter(asked, time.Second), true, time.Second},
		"elsewhere":       {fmt.Errorf("a: %w", cross(t, asked, 1)), false, 0},
		"struct":          {&limitError{Err: cross(t, asked, 2)}, false, 0},
		"marked sentinel": {fmt.Errorf("a: %w", failure.Decode(over, nil)), false, 0},
		"elsewhere, then": {failure.Final(failure.RetryAfter(cross(t, asked, 1), time.Minute)), true, time.Minute},
		"both":            {errors.Join(cross(t, asked, 1), failure.Final(errDeclined)), true, 0},
	} {
		if final, after := failure.Marks(c.err); final != c.final || after != c.after {
			t.Errorf("%s: final %v, after %v", name, final, after)
		}
		if strings.HasPrefix(name, "elsewhere") && !failure.IsFinal(c.err) {
			t.Errorf("%s: IsFinal does not see it", name)
		}
	}
}

func TestOutermostRetryAfterCounts(t *testing.T) {
	err := failure.RetryAfter(fmt.Errorf("x: %w", failure.RetryAfter(errDeclined, time.Hour)), time.Second)
	if d := failure.Delay(err); d != time.Second {
		t.Errorf("delay %v", d)
	}
	if d := failure.Delay(failure.RetryAfter(errDeclined, 0)); d <= 0 || d > time.Microsecond {
		t.Errorf("a retry at once is told as %v", d)
	}
}

func TestLongTextsAreCutNotDropped(t *testing.T) {
	err := error(errDeclined)
	for i := range 3 {
		err = fmt.Errorf("level %d: the cause is here\n%s: %w", i, strings.Repeat("é", 100<<10), err)
	}
	f := failure.Encode(err, nil)
	for depth := 0; ; depth++ {
		limit := failure.MaxCauseMessage
		if depth == 0 {
			limit = failure.MaxMessage
		}
		if len(f.Message) > limit || !utf8.ValidString(f.Message) {
			t.Errorf("depth %d: %d bytes, valid %v", depth, len(f.Message), utf8.ValidString(f.Message))
		}
		if len(f.Causes) == 0 {
			break
		}
		if !strings.HasPrefix(f.Message, fmt.Sprintf("level %d: the cause is here\n", 2-depth)) || !strings.HasSuffix(f.Message, "bytes cut]") {
			t.Errorf("depth %d: %.40q … %q", depth, f.Message, f.Message[len(f.Message)-30:])
		}
		f = f.Causes[0]
	}
	if f.Message != "card declined" {
		t.Errorf("the innermost cause is %q", f.Message)
	}
}

func TestCutCountsWhatIsGone(t *testing.T) {
	s := strings.Repeat("x", 1000)
	cut := failure.Cut(s, 100)
	var gone int
	if _, err := fmt.Sscanf(strings.TrimLeft(cut, "x"), "… [%d bytes cut]", &gone); err != nil {
		t.Fatalf("%q: %v", cut, err)
	}
	if kept := strings.Count(cut, "x"); kept+gone != 1000 || len(cut) > 100 {
		t.Errorf("kept %d, gone %d, length %d", kept, gone, len(cut))
	}
	if failure.Cut("short", 5) != "short" || failure.Cut("longer", 3) != "lon" {
		t.Error("short limits")
	}
}

// circular wraps itself; broken panics in every method.
type circular struct{}

func (c *circular) Error() string { return "round" }
func (c *circular) Unwrap() error { return c }

type broken struct{ s string }

func (b *broken) Error() string { return b.s }
func (b *broken) Unwrap() error { return errors.New(b.s) }

func TestBadErrorsAreRecordedAllTheSame(t *testing.T) {
	var nilBroken *broken
	deep := errors.New("bottom")
	wide := make([]error, 1000)
	for i := range wide {
		deep = fmt.Errorf("%w", deep)
		wide[i] = errors.New("w")
	}
	for name, err := range map[string]error{
		"circular": &circular{}, "nil pointer": nilBroken, "deep": deep, "wide": errors.Join(wide...),
		"not UTF-8":   errors.New("a\xffb"),
		"unencodable": fmt.Errorf("x: %w", &unencodable{C: make(chan int)}),
	} {
		f := failure.Encode(err, nil)
		data, mErr := proto.Marshal(f)
		if mErr != nil || f.Message == "" || f.Type == "" || len(data) > 64<<10 {
			t.Errorf("%s: %d bytes, %v, %.100v", name, len(data), mErr, f)
		}
		if failure.Decode(f, nil).Error() != f.Message {
			t.Errorf("%s: decoded otherwise", name)
		}
	}
	if f := failure.Encode(nilBroken, nil); !strings.Contains(f.Message, "Error method of *failure_test.broken panicked") {
		t.Errorf("message %q", f.Message)
	}
}

// panicking is a codec of a user who made a mistake.
type panicking struct{ codec.Codec }

func (panicking) Encode(any) (*pb.Payload, error) { panic("encode") }
func (panicking) Decode(*pb.Payload, any) error   { panic("decode") }

func TestPanicInCodecLosesOnlyTheFields(t *testing.T) {
	in := &limitError{Cents: 1, Err: errDeclined}
	out := failure.Decode(failure.Encode(in, panicking{}), nil)
	if !errors.Is(out, errDeclined) || !failure.IsType(out, "test.LimitError") {
		t.Errorf("decoded %v", out)
	}
	out = failure.Decode(failure.Encode(in, nil), panicking{})
	if !errors.Is(out, errDeclined) || !failure.IsType(out, "test.LimitError") {
		t.Errorf("decoded %v", out)
	}
}

func TestOutcomeLimitAndStackSurvive(t *testing.T) {
	f := failure.Encode(errDeclined, nil)
	f.Outcome, f.Limit, f.Stack = pb.Outcome_OUTCOME_TIMED_OUT, pb.Limit_LIMIT_HEARTBEAT, "stack"
	again := failure.Encode(failure.Decode(f, nil), nil)
	if !proto.Equal(f, again) {
		t.Errorf("was %v, is %v", f, again)
	}
}
