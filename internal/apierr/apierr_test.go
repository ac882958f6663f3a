package apierr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/engined/engined/internal/apierr"
)

func TestErrorIsOneLine(t *testing.T) {
	for want, e := range map[string]*apierr.Error{
		"start: the id is taken (use another)": {Op: "start", Message: "the id is taken", Hint: "use another"},
		"start: a b c":                         {Op: "start", Message: "a\nb\r\nc"},
		"unavailable":                          {Code: apierr.Unavailable},
		"code 99 (why)":                        {Code: 99, Hint: "why"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCodeIsFoundThroughWrapping(t *testing.T) {
	cause := errors.New("disk full")
	err := fmt.Errorf("call: %w", &apierr.Error{Code: apierr.Unavailable, Op: "start", Err: cause})
	if apierr.CodeOf(err) != apierr.Unavailable || !apierr.Is(err, apierr.Unavailable) || !errors.Is(err, cause) {
		t.Errorf("code %v", apierr.CodeOf(err))
	}
	if apierr.CodeOf(cause) != apierr.Internal || apierr.Is(cause, apierr.Internal) || apierr.Is(nil, apierr.Internal) {
		t.Error("an error of another kind counts as internal by CodeOf alone")
	}
}
