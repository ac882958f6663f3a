package sdktest_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

const limit = codec.MaxPayload

// A string of n bytes is a JSON payload of n+2.
func bytesOf(_ context.Context, n int) (string, error) { return strings.Repeat("x", n-2), nil }

func lengthOf(_ context.Context, s string) (int, error) { return len(s), nil }

func notANumber(context.Context, int) (float64, error) { return math.NaN(), nil }

func panics(context.Context, int) (int, error) { panic("a nil map") }

func exits(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }

// bigResult asks for a result of n bytes.
func bigResult(ctx workflow.Context, n int) (int, error) {
	s, err := workflow.Do(ctx, bytesOf, n)
	return len(s) + 2, err
}

// bigInput gives an activity an input of n bytes.
func bigInput(ctx workflow.Context, n int) (int, error) {
	length, err := workflow.Do(ctx, lengthOf, strings.Repeat("x", n-2))
	return length + 2, err
}

func encodesNaN(ctx workflow.Context, n int) (float64, error) { return workflow.Do(ctx, notANumber, n) }

func once(ctx workflow.Context, n int) (int, error) {
	return workflow.Do(ctx, panics, n, workflow.Retry{Attempts: 2})
}

func exitsOnce(ctx workflow.Context, n int) (int, error) {
	return workflow.Do(ctx, exits, n, workflow.Retry{Attempts: 2})
}

// wrongInput calls by name with an input that does not fit.
func wrongInput(ctx workflow.Context, s string) (int, error) {
	return workflow.DoNamed[int](ctx, "double", s)
}

func badEnv(t *testing.T) *sdktest.Env {
	env := sdktest.New(t)
	for _, register := range []func(){
		func() { worker.Workflow(env.Worker, bigResult) }, func() { worker.Workflow(env.Worker, bigInput) },
		func() { worker.Workflow(env.Worker, encodesNaN) }, func() { worker.Workflow(env.Worker, once) },
		func() { worker.Workflow(env.Worker, exitsOnce) }, func() { worker.Workflow(env.Worker, wrongInput) },
	} {
		register()
	}
	for _, a := range []any{bytesOf, lengthOf, notANumber, panics, exits, double} {
		worker.Activity(env.Worker, a)
	}
	env.Start()
	return env
}

// A payload may be 2 MiB and not a byte more: a larger input is refused before
// it is sent, a larger result fails the step for good.
func TestPayloadsEndAtTwoMiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := badEnv(t)
		for _, f := range []func(workflow.Context, int) (int, error){bigResult, bigInput} {
			if got, err := client.Execute(t.Context(), env.Client, f, limit); err != nil || got != limit {
				t.Errorf("at the limit: %d, %v", got, err)
			}
		}
		var tooLarge *codec.TooLargeError
		var failed *client.RunError
		_, err := client.Execute(t.Context(), env.Client, bigResult, limit+1, client.ID("result"))
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "2097152") {
			t.Errorf("a result of one byte more: %v", err)
		}
		if n := attempts(t, env, "result"); n != 1 {
			t.Errorf("the step with the large result was tried %d times, want once", n)
		}
		_, err = client.Execute(t.Context(), env.Client, bigInput, limit+1, client.ID("input"))
		if !errors.As(err, &failed) || attempts(t, env, "input") != 0 {
			t.Errorf("an input of one byte more: %v, tried %d times", err, attempts(t, env, "input"))
		}
		_, err = client.StartNamed[int](t.Context(), env.Client, "bigInput", strings.Repeat("x", limit))
		if !errors.As(err, &tooLarge) || !client.IsInvalidArgument(err) {
			t.Errorf("a start with one byte more: %v", err)
		}
	})
}

// attempts counts the tries of the run's activities.
func attempts(t *testing.T, env *sdktest.Env, id string) (n int) {
	for e, err := range client.Get[int](env.Client, id, "").History(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n += int(e.GetActivityFailed().GetTally().GetAttempts())
	}
	return n
}

// What cannot be encoded or decoded fails for good, at the first attempt, and
// says so; panics and Goexit are retried like errors and harm nobody else.
func TestBadValuesAndBadCodeFailOnlyTheirStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := badEnv(t)
		_, err := client.Execute(t.Context(), env.Client, encodesNaN, 1, client.ID("nan"))
		if err == nil || attempts(t, env, "nan") != 1 {
			t.Errorf("NaN: %v after %d attempts", err, attempts(t, env, "nan"))
		}
		_, err = client.Execute(t.Context(), env.Client, wrongInput, "no number", client.ID("wrong"))
		if err == nil || !strings.Contains(err.Error(), "double") || attempts(t, env, "wrong") != 1 {
			t.Errorf("undecodable input: %v after %d attempts", err, attempts(t, env, "wrong"))
		}
		_, err = client.Execute(t.Context(), env.Client, once, 1, client.ID("panic"))
		if err == nil || !strings.Contains(err.Error(), "a nil map") || attempts(t, env, "panic") != 2 {
			t.Errorf("panic: %v after %d attempts", err, attempts(t, env, "panic"))
		}
		_, err = client.Execute(t.Context(), env.Client, exitsOnce, 1, client.ID("exit"))
		if err == nil || !strings.Contains(err.Error(), "Goexit") || attempts(t, env, "exit") != 2 {
			t.Errorf("Goexit: %v after %d attempts", err, attempts(t, env, "exit"))
		}
		if got, err := client.Execute(t.Context(), env.Client, bigResult, 10); err != nil || got != 10 {
			t.Errorf("afterwards the worker answers %d, %v", got, err)
		}
	})
}

// Bad ids are refused by the client, and again by the engine.
func TestBadIDsAreRefusedWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := badEnv(t)
		long := strings.Repeat("i", 1000)
		if _, err := client.Execute(t.Context(), env.Client, bigResult, 10, client.ID(long)); err != nil {
			t.Errorf("an id of 1,000 bytes: %v", err)
		}
		for name, id := range map[string]string{"1,001 bytes": long + "i", "not UTF-8": "a\xffb", "NUL": "a\x00b"} {
			_, err := client.Start(t.Context(), env.Client, bigResult, 10, client.ID(id))
			if !client.IsInvalidArgument(err) {
				t.Errorf("%s at the client: %v", name, err)
			}
			_, err = env.Engine.Start(t.Context(), &pb.StartRequest{Namespace: "default", WorkflowId: id, Type: "bigResult", Queue: "default"})
			if !client.IsInvalidArgument(err) {
				t.Errorf("%s at the engine: %v", name, err)
			}
		}
		if err := client.Get[int](env.Client, "", "").Cancel(t.Context(), ""); !client.IsInvalidArgument(err) {
			t.Errorf("an empty id: %v", err)
		}
		if _, err := client.Get[int](env.Client, "nobody", "").Result(t.Context()); !client.IsNotFound(err) {
			t.Errorf("an id that no run has: %v", err)
		}
	})
}
