// Package dial opens connections to engines, for clients and for workers.
//
// It owns how a connection behaves: the order in which several addresses are
// tried, how a dead peer is noticed, how fast a lost connection is tried again,
// how large a message may be. It must not know the calls that are made, nor
// repeat one: whoever makes a call knows whether that is right.
package dial

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/engined/engined/internal/apierr"
)

const (
	// maxMessage bounds a message, each way. A page or a batch is cut at 1 MiB
	// or one item, but all decisions of one cause travel together.
	maxMessage = 64 << 20

	// A peer that is silent for pingAfter is asked for a sign of life, which
	// must come within pingTimeout. The server permits a ping every 5 s; gRPC
	// sends none more often than every 10 s.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second

	// An address that has failed rests for backoffBase at first and for
	// backoffCap at most. gRPC spreads the waits by its own jitter, ±20 %: it
	// takes no policy of another's.
	backoffBase = 50 * time.Millisecond
	backoffCap  = time.Second

	// connectTimeout is how long one address may take to connect.
	connectTimeout = 2 * time.Second

	userAgent = "engined-go"
)

// Options of a connection. The zero value has the defaults named.
type Options struct {
	// Shuffle tries the addresses in an order drawn once, instead of in their
	// own: many clients then spread over the engines.
	Shuffle bool
	// Heard, if it is set, counts the bytes that come from the network: a sign of
	// life also in the middle of a large message over a slow link.
	Heard *atomic.Int64
}

// New returns a connection to the engine at address: "host:port", or several
// separated by commas. The port is DefaultPort where none is given. Nothing is
// connected before the first call, so an engine need not be there; an address
// that cannot be one is an *apierr.Error, InvalidArgument.
//
// The connection stands to one engine at a time: the first that can be reached,
// in the order of the addresses. (An address that has not answered after 250 ms
// gets the next one as its rival; gRPC takes IPv4 and IPv6 in turns.) When that
// engine is lost the next call goes through the addresses again. A call made
// while none can be reached fails at once, Unavailable, and may be repeated.
//
// The traffic is not encrypted. Proxies named by the environment are not used:
// they are for web sites, and an engine is a neighbour.
func New(address string, o Options) (*grpc.ClientConn, error) {
	list, err := parse(address)
	if err != nil {
		return nil, apierr.Wrap(apierr.InvalidArgument, "dial", err)
	}
	if o.Shuffle {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var state resolver.State
	for _, a := range list {
		// By its own name each engine is asked for: the authority of the call.
		at := resolver.Address{Addr: a, ServerName: a}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{at}})
	}
	names := manual.NewBuilderWithScheme("engined")
	names.InitialState(state)

	conn, err := grpc.NewClient(names.Scheme()+":///"+list[0],
		grpc.WithResolvers(names), // and pick_first, gRPC's default
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil || o.Heard == nil {
				return c, err
			}
			return &heard{c, o.Heard}, nil
		}),
		grpc.WithUserAgent(userAgent),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingAfter, Timeout: pingTimeout,
			PermitWithoutStream: true, // else the first call after a pause meets the dead peer
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: backoffBase, MaxDelay: backoffCap,
				Multiplier: backoff.DefaultConfig.Multiplier, Jitter: backoff.DefaultConfig.Jitter,
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, apierr.Wrap(apierr.InvalidArgument, "dial", err)
	}
	return conn, nil
}

// heard is a connection whose bytes are counted.
type heard struct {
	net.Conn
	n *atomic.Int64
}

func (c *heard) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.n.Add(int64(n))
	}
	return n, err
}
