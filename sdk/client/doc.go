// Package client starts runs, follows them and asks for their results.
//
//	c, err := client.Dial("engine.example:7450", client.Options{})
//	run, err := client.Start(ctx, c, PlaceOrder, order, client.ID(order.ID), client.RequestID(order.ID))
//	receipt, err := run.Result(ctx)
//
// It owns what a caller sees: typed functions in front of untyped messages,
// request ids that make a repeated call harmless, retries while no engine
// answers, and typed errors. It must not know any rule of the engine: Service is
// the engine itself, in the same process, or a connection to one.
//
// # Calls and retries
//
// A call is repeated until an engine answers it or its context ends: when the
// engine is down, shutting down, busy, or its connection breaks. A repeat bears
// the request id of the first try, so that a start whose answer was lost is not
// carried out twice. Over a network a short call that has no answer within 10 s
// counts as lost; Result, Execute and Follow wait for as long as a run lasts.
// A context without a deadline waits without end, which the logger hears of.
//
// # Errors
//
// What the engine refuses is an *Error, told apart by IsNotFound and its like. A
// context that ends gives its cause; IsUnavailable and IsResourceExhausted then
// tell what the last try met. A run that did not complete is a *RunError.
package client
