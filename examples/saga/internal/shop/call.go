package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/sdk/activity"
)

// RefusedError is an answer of a service that is no success.
type RefusedError struct {
	Service wire.Service
	Status  int
	Code    wire.Code
	Detail  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s answered %d %s: %s", e.Service, e.Status, e.Code, e.Detail)
}

// trade are the refusals by which a service says that it did nothing and never
// will. No other answer says so: neither a seal nor an old fence tells what an
// earlier delivery has done.
var trade = map[wire.Code]error{
	wire.Declined:   ErrDeclined,
	wire.OutOfStock: ErrOutOfStock,
	wire.BadAddress: ErrAddress,
}

// call posts a request under the key and the fence of the activity that ctx
// belongs to.
func (s *Shop) call(ctx context.Context, service wire.Service, endpoint string, request any) (wire.Answer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return wire.Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.urls[service]+"/"+endpoint, bytes.NewReader(body))
	if err != nil {
		return wire.Answer{}, err
	}
	info := activity.GetInfo(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.KeyHeader, info.Key)
	r.Header.Set(wire.FenceHeader, strconv.FormatInt(info.Fence, 10))
	resp, err := s.client.Do(r)
	if err != nil {
		return wire.Answer{}, err // nobody knows what has happened
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxBody))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return wire.Answer{}, fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return read(service, resp.StatusCode, data)
}

func read(service wire.Service, status int, data []byte) (wire.Answer, error) {
	if status == http.StatusOK {
		var a wire.Answer
		if err := json.Unmarshal(data, &a); err != nil {
			return wire.Answer{}, fmt.Errorf("read the answer of %s: %w", service, err)
		}
		return a, nil
	}
	var p wire.Problem
	if err := json.Unmarshal(data, &p); err != nil {
		return wire.Answer{}, fmt.Errorf("read the answer %d of %s: %w", status, service, err)
	}
	if sentinel, ok := trade[p.Code]; ok {
		return wire.Answer{}, activity.Fail("%w: %s", sentinel, p.Detail)
	}
	return wire.Answer{}, &RefusedError{Service: service, Status: status, Code: p.Code, Detail: p.Detail}
}
