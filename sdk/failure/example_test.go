package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// ErrSoldOut is a sentinel: compared by errors.Is.
var ErrSoldOut = errors.New("sold out")

// PriceError is an error with fields: found by errors.As.
type PriceError struct {
	Asked, Offered int
}

func (e *PriceError) Error() string {
	return fmt.Sprintf("%d was asked for, %d offered", e.Asked, e.Offered)
}

// The names are what histories hold. They are registered by every program that
// returns these errors or asks for them.
func init() {
	failure.Register("shop.SoldOut", ErrSoldOut)
	failure.RegisterType[*PriceError]("shop.PriceError")
}

func buy(_ context.Context, item string) (string, error) {
	if item == "gold" {
		return "", fmt.Errorf("buy %s: %w", item, activity.Final(&PriceError{Asked: 900, Offered: 20}))
	}
	return "", fmt.Errorf("buy %s: %w", item, activity.Final(ErrSoldOut))
}

// buying finds the activity's errors by errors.Is and errors.As.
func buying(ctx workflow.Context, item string) (string, error) {
	got, err := workflow.Do(ctx, buy, item)
	if errors.Is(err, ErrSoldOut) {
		return "nothing", nil
	}
	return got, err
}

// play runs buying on an engine of its own.
func play(item string) (got string, err error) {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, buying)
		worker.Activity(env.Worker, buy)
		env.Start()
		got, err = client.Execute(t.Context(), env.Client, buying, item)
	})
	return got, err
}

// The activity's error is the sentinel in the workflow, too.
func ExampleRegister() {
	fmt.Println(play("tea"))
	// Output:
	// nothing <nil>
}

// The activity's error has its fields at the client, too, two programs further.
func ExampleRegisterType() {
	_, err := play("gold")
	var price *PriceError
	if errors.As(err, &price) {
		fmt.Println(price.Asked, price.Offered)
	}
	// Output:
	// 900 20
}

// Nobody has registered the error's type: its name is still known.
func ExampleIsType() {
	type lost struct{ error }
	f := failure.Encode(fmt.Errorf("send: %w", lost{errors.New("the parcel is gone")}), nil)
	err := failure.Decode(f, nil) // as on the other side
	fmt.Println(err, failure.IsType(err, "failure_test.lost"))
	// Output:
	// send: the parcel is gone true
}
