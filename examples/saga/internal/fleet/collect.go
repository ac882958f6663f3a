package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/engined/engined/examples/saga/internal/wire"
)

const (
	// collectPatience is how long a ledger is asked for while its service is being
	// started again.
	collectPatience = 10 * time.Second
	collectPause    = 50 * time.Millisecond
)

// Collect delivers what the network still holds back and reads the ledgers, in
// the order of wire.Services. Call it when no call is under way any more.
func (f *Fleet) Collect(ctx context.Context) ([]wire.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, collectPatience)
	defer cancel()
	var all []wire.Ledger
	for _, s := range wire.Services() {
		var settled string
		if err := f.ask(ctx, http.MethodPost, f.URL(s)+wire.SettlePath, &settled); err != nil {
			return nil, fmt.Errorf("settle %s: %w", s, err)
		}
		var page wire.Ledger
		if err := f.ask(ctx, http.MethodGet, f.URL(s)+wire.LedgerPath, &page); err != nil {
			return nil, fmt.Errorf("read the ledger of %s: %w", s, err)
		}
		all = append(all, page)
	}
	return all, nil
}

// ask tries until a service answers with 200, or ctx or the fleet ends.
func (f *Fleet) ask(ctx context.Context, method, url string, into any) error {
	for {
		err := once(ctx, method, url, into)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-f.Context().Done():
			return errors.Join(context.Cause(f.Context()), err)
		case <-time.After(collectPause):
		}
	}
}

func once(ctx context.Context, method, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	req.Close = true // the service may be another process the next time
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, body)
	}
	return json.Unmarshal(body, into)
}
