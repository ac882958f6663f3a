package replay_test

import (
	"context"
	"errors"

	"github.com/engined/engined/sdk/saga"
)

func (*Shop) Refund(context.Context, saga.Undo[Order, string]) error {
	return errors.New("not run here")
}
func (*Shop) Release(context.Context, saga.Undo[string, string]) error {
	return errors.New("not run here")
}
