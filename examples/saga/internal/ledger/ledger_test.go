package ledger_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// The rules of a ledger are tested over HTTP, in package service.

func TestOnlyTheLedgerOfAServiceIsOpened(t *testing.T) {
	_, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), "bakery", nil)
	if err == nil || !strings.Contains(err.Error(), "bakery") {
		t.Error(err)
	}
	_, err = ledger.Open(t.Context(), filepath.Join(t.TempDir(), "nowhere", "l.db"), wire.Mail, nil)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
}

func TestACallOfAnotherServiceOrWithoutAKeyIsNone(t *testing.T) {
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), wire.Mail, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, key := range []string{"", strings.Repeat("k", wire.MaxKey+1)} {
		if _, err := l.NewCall(wire.Send, key, 1, []byte(`{"order":"o","to":"a@b"}`)); err == nil {
			t.Errorf("the key %q is taken", key)
		}
	}
	if _, err := l.NewCall(wire.Charge, "k", 1, []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "charge") {
		t.Error(err)
	}
}
