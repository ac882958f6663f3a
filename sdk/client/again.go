package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/retry"
)

// policy spaces the tries of one call; the context ends them.
var policy = retry.Policy{Attempts: -1, Base: 50 * time.Millisecond, Cap: 5 * time.Second}

// patience is how long a call is repeated before the logger hears of it. Nobody
// sees otherwise why a call without a deadline does not return.
const patience = 3 * time.Second

// again makes a call until it is answered: an engine that cannot answer now is
// asked again, with the same request and so under the same request id, until the
// context ends. The error is then the context's cause, with the last answer in
// its tree.
func again[Q, R any](ctx context.Context, c *Client, op string, call func(context.Context, Q) (R, error), req Q) (R, error) {
	var none R
	var last error
	var failing time.Time
	told := false
	for try := 0; ; try++ {
		if err := c.over(ctx, op); err != nil {
			return none, because(err, last)
		}
		began := time.Now()
		res, err := call(ctx, req)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return none, because(err, last)
		case !c.repeats(err):
			return none, err
		}
		last = err
		if time.Since(began) > policy.Cap {
			try, failing = 0, time.Time{} // it has waited: for an answer, or for a run that is long
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if !told && time.Since(failing) > patience {
			told = true
			c.o.Logger.Warn("a call has had no answer yet; it is repeated until its context ends", "op", op, "err", err)
		}
		c.rest(ctx, policy.Delay(try, rand.Uint64()))
	}
}

// repeats says whether the same request may succeed later. A closed engine is
// gone for good in this process; over a network another one may come.
func (c *Client) repeats(err error) bool {
	return apierr.Is(err, apierr.Unavailable) || apierr.Is(err, apierr.ResourceExhausted) ||
		c.conn != nil && apierr.Is(err, apierr.Closed)
}

// because adds what the last try was answered with to the reason why there is
// no other.
func because(err, last error) error {
	if last == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, last)
}

// over returns why no try may follow: the end of the context or of the client.
func (c *Client) over(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.isClosed() {
		return apierr.New(apierr.Closed, op, "the client is closed", "")
	}
	return nil
}

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// rest waits, no longer than the context and the client last.
func (c *Client) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}
