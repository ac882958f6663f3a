package dial_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/dial"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// engine is one that answers List with its name, and remembers who asked.
type engine struct {
	enginerpc.UnimplementedClientServer
	name  string
	asked metadata.MD
}

func (e *engine) List(ctx context.Context, _ *pb.ListRequest) (*pb.ListResponse, error) {
	e.asked, _ = metadata.FromIncomingContext(ctx)
	return &pb.ListResponse{Next: e.name}, nil
}

// serve runs an engine at an address, and returns where and how to end it.
func serve(t *testing.T, e *engine, address string) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	enginerpc.RegisterClientServer(s, e)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	stop = func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil // stopped again at the end of the test
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// nobody returns an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func connect(t *testing.T, address string, o dial.Options) enginerpc.ClientClient {
	t.Helper()
	conn, err := dial.New(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return enginerpc.NewClientClient(conn)
}

// who asks which engine is there.
func who(t *testing.T, c enginerpc.ClientClient, o ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := c.List(ctx, &pb.ListRequest{}, o...)
	return res.GetNext(), rpcerr.FromStatus(ctx, "list", err)
}

func TestTheFirstAddressThatAnswersIsUsedAndTheNextWhenItIsLost(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	atA, stopA := serve(t, a, "127.0.0.1:0")
	atB, _ := serve(t, b, "127.0.0.1:0")
	c := connect(t, nobody(t)+","+atA+", "+atB, dial.Options{})
	for range 2 {
		if got, err := who(t, c); got != "a" || err != nil {
			t.Fatalf("answered by %q, %v; want the first that listens", got, err)
		}
	}
	stopA()
	got, err := who(t, c)
	if apierr.Is(err, apierr.Unavailable) {
		// It had left before its end was noticed: the caller's policy repeats.
		got, err = who(t, c, grpc.WaitForReady(true))
	}
	if got != "b" || err != nil {
		t.Fatalf("answered by %q, %v; want the next", got, err)
	}
	if h := b.asked.Get(":authority"); len(h) != 1 || h[0] != atB {
		t.Errorf("it was asked as %q, want %q", h, atB)
	}
	if ua := b.asked.Get("user-agent"); len(ua) != 1 || !strings.HasPrefix(ua[0], "engined-go") {
		t.Errorf("it was asked by %q", ua)
	}
}

func TestAnEngineMayComeUpLater(t *testing.T) {
	at := nobody(t)
	c := connect(t, at, dial.Options{})
	if _, err := who(t, c); !apierr.Is(err, apierr.Unavailable) {
		t.Fatalf("with nobody there: %v, want an error that may be repeated", err)
	}
	serve(t, &engine{name: "late"}, at)
	if got, err := who(t, c, grpc.WaitForReady(true)); got != "late" || err != nil {
		t.Errorf("answered by %q, %v", got, err)
	}
}

func TestALargeMessageFits(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	at, _ := serve(t, &engine{name: large + large}, "127.0.0.1:0") // above gRPC's own 4 MiB
	if got, err := who(t, connect(t, at, dial.Options{})); len(got) != 6<<20 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestShufflingSpreadsClients(t *testing.T) {
	a, _ := serve(t, &engine{name: "a"}, "127.0.0.1:0")
	b, _ := serve(t, &engine{name: "b"}, "127.0.0.1:0")
	met := map[string]bool{}
	for range 64 { // both but for one chance in 2^63
		got, err := who(t, connect(t, a+","+b, dial.Options{Shuffle: true}))
		if err != nil {
			t.Fatal(err)
		}
		if met[got] = true; len(met) == 2 {
			return
		}
	}
	t.Errorf("64 clients met %v alone", met)
}

func TestABadAddressIsRefusedByName(t *testing.T) {
	for address, part := range map[string]string{
		"":                     "",
		"a:1,,b:2":             "",
		"a:1, b:x":             " b:x",
		"a:0":                  "a:0",
		"a:65536":              "a:65536",
		":7450":                ":7450",
		"http://a:1":           "http://a:1",
		"a/b":                  "a/b",
		"a b:1":                "a b:1",
		"a:1:2":                "a:1:2",
		"[::1":                 "[::1",
		"x,user@host:1,y":      "user@host:1",
		"10.0.0.1:7450;b:7450": "10.0.0.1:7450;b:7450",
	} {
		_, err := dial.New(address, dial.Options{})
		var bad *dial.AddressError
		if !apierr.Is(err, apierr.InvalidArgument) || !errors.As(err, &bad) || bad.Part != part {
			t.Errorf("%q: %v, want the part %q named", address, err, part)
		}
	}
}
