package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/engined/engined/cmd/engined/internal/config"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// The codes of SQLite that the tests make up.
var (
	errSync = faultdriver.Fault(10, 10|4<<8)
	errFull = faultdriver.Fault(13, 13)
)

// output is a stream that is read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// setup is a server that is about to run.
type setup struct {
	driver   sqlite.Driver
	out, err output
}

// options has both addresses on free ports and the database in dir; flags, of
// the form --name=value, override.
func (s *setup) options(t *testing.T, dir string, flags ...string) Options {
	t.Helper()
	var env []string
	for _, f := range append([]string{
		"--database=" + filepath.Join(dir, "x.db"), "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--shards=2",
	}, flags...) {
		name, text, _ := strings.Cut(strings.TrimPrefix(f, "--"), "=")
		env = append(env, config.Variable(name)+"="+text)
	}
	c, err := config.Load(t.Context(), config.Sources{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Build: Build{Version: "v1", Commit: "c", Go: "go1"}, Stdout: &s.out, Stderr: &s.err, Driver: s.driver}
}

// life is a server that runs.
type life struct {
	*Server
	stop  context.CancelFunc
	ended chan error // what Run returned
}

// run starts a server and waits until it is ready. It is stopped with the test.
func (s *setup) run(t *testing.T, dir string, flags ...string) *life {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &life{stop: stop, ended: make(chan error, 1)}
	o := s.options(t, dir, flags...)
	ready := make(chan *Server, 1)
	go func() {
		l.ended <- Run(ctx, o, func(s *Server) { ready <- s })
		close(l.ended)
	}()
	select {
	case l.Server = <-ready:
	case err := <-l.ended:
		t.Fatalf("it ended while it started: %v", err)
	}
	t.Cleanup(func() {
		stop()
		<-l.ended
	})
	return l
}

func (l *life) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s%s", l.HTTPAddr(), path), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func greet(_ workflow.Context, name string) (string, error) { return "hello " + name, nil }

func (l *life) dial(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(l.GRPCAddr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// work starts a worker, which is stopped with the test.
func (l *life) work(t *testing.T) {
	t.Helper()
	w, err := worker.Dial(l.GRPCAddr().String(), worker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, greet)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Stop(context.WithoutCancel(t.Context())) })
}

func TestAWorkflowRunsOverTheSocketAndTheMetricsCountIt(t *testing.T) {
	var s setup
	l := s.run(t, t.TempDir())
	l.work(t)
	got, err := client.Execute(t.Context(), l.dial(t), greet, "you")
	if err != nil || got != "hello you" {
		t.Fatalf("have %q, %v", got, err)
	}
	code, body := l.get(t, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("have %d", code)
	}
	for _, want := range []string{
		"engined_runs_started_total 1\n", `engined_runs_closed_total{status="completed"} 1` + "\n",
		`engined_runs_closed_total{status="timed_out"} 0` + "\n", "engined_workers 1\n", "engined_ready 1\n",
		`engined_requests_total{code="OK",method="Client/Start"} 1` + "\n",
		`engined_build_info{commit="c",go="go1",protocol="1",version="v1"} 1` + "\n",
		"engined_commit_duration_seconds_bucket{le=\"0.0005\"}", "# HELP engined_slots_used ", "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if n := count(t, body, "engined_commits_total"); n < 1 || n != count(t, body, "engined_commit_duration_seconds_count") {
		t.Errorf("%v commits, and the histogram has %v", n, count(t, body, "engined_commit_duration_seconds_count"))
	}
	// What is documented is there, whether it has happened or not.
	for _, m := range table {
		if !strings.Contains(body, "\n# TYPE "+m.name+" ") {
			t.Errorf("the metrics lack %s", m.name)
		}
	}
}

// count reads a value without labels.
func count(t *testing.T, body, name string) (n float64) {
	t.Helper()
	_, rest, ok := strings.Cut(body, "\n"+name+" ")
	if !ok {
		t.Fatalf("the metrics lack %s", name)
	}
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAStartSaysWhatRunsAndWhere(t *testing.T) {
	dir := t.TempDir()
	var first, second, third setup
	l := first.run(t, dir)
	db, err := filepath.EvalSymlinks(filepath.Join(dir, "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("version: v1\ndatabase: %s\nfile: new\nshards: 2\ngrpc: %s\nhttp: %s\nready\n", db, l.GRPCAddr(), l.HTTPAddr())
	if got := first.out.String(); got != want {
		t.Errorf("have %q\nwant %q", got, want)
	}
	if strings.Contains(first.out.String(), ":0\n") {
		t.Error("it tells port 0 instead of the one that was taken")
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	// The second time the file is there, and has its number of shards.
	l = second.run(t, dir, "--shards=0", "--http-address=")
	if got := second.out.String(); !strings.Contains(got, "file: kept\nshards: 2\n") || !strings.Contains(got, "\nhttp: off\nready\n") {
		t.Errorf("have %q", got)
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	third.run(t, dir, "--log-format=json")
	var told []string
	for line := range strings.Lines(third.out.String()) {
		var r struct {
			Msg   string
			Value any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		told = append(told, r.Msg)
	}
	if got := strings.Join(told, " "); got != "version database file shards grpc http ready" {
		t.Errorf("have %q", got)
	}
}

// end stops the server as a signal does.
func (l *life) end() error {
	l.stop()
	return <-l.ended
}

func TestWhatWasAcknowledgedIsThereAfterAStart(t *testing.T) {
	dir := t.TempDir()
	var s setup
	l := s.run(t, dir)
	if _, err := client.Start(t.Context(), l.dial(t), greet, "you", client.ID("g")); err != nil {
		t.Fatal(err)
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	l = s.run(t, dir)
	l.work(t)
	got, err := client.Get[string](l.dial(t), "g", "").Result(t.Context())
	if err != nil || got != "hello you" {
		t.Errorf("have %q, %v", got, err)
	}
}

// While it stops, and while calls drain, it is alive and not ready.
func TestItIsNotReadyFromTheMomentItStops(t *testing.T) {
	var s setup
	l := s.run(t, t.TempDir())
	if code, body := l.get(t, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if code, body := l.get(t, "/readyz"); code != http.StatusOK || body != "ready\n" {
		t.Errorf("readyz: %d %q", code, body)
	}
	// The stop is held at its first step, as a call under way holds it.
	l.mu.Lock()
	l.phase = errStopping
	l.mu.Unlock()
	if code, body := l.get(t, "/readyz"); code != http.StatusServiceUnavailable || body != "the engine is being shut down\n" {
		t.Errorf("readyz: %d %q", code, body)
	}
	if code, _ := l.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	if _, body := l.get(t, "/metrics"); !strings.Contains(body, "\nengined_ready 0\n") {
		t.Error("the metrics say that it is ready")
	}
	if err := l.end(); err != nil {
		t.Errorf("have %v", err)
	}
}

func TestAFailedSyncEndsTheServerWithCode70(t *testing.T) {
	dir := t.TempDir()
	rig := faultdriver.New(mattn.Driver())
	s := setup{driver: rig}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := s.options(t, dir)
	srv, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{Server: srv}
	rig.OnCommit(func(int) faultdriver.Outcome { return faultdriver.Fails(errSync) })
	began := make(chan error, 1)
	go func() {
		_, err := client.Start(ctx, l.dial(t), greet, "you")
		began <- err
	}()
	<-srv.Failed()
	if code, body := l.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "the engine has stopped") || strings.Count(body, "\n") != 1 {
		t.Errorf("readyz: %d %q", code, body)
	}
	cancel() // the client would try for ever
	if err := <-began; err == nil {
		t.Error("a start was acknowledged that is not on disk")
	}
	var fatal *FatalError
	if err := srv.Close(t.Context()); !errors.As(err, &fatal) || ExitCode(err) != ExitFatal {
		t.Errorf("have %v, code %d", err, ExitCode(err))
	}
	// A start afterwards finds the truth on disk.
	s.driver = nil
	s.run(t, dir)
}

func TestAServerWhoseEngineFailsEndsByItself(t *testing.T) {
	rig := faultdriver.New(mattn.Driver())
	s := setup{driver: rig}
	l := s.run(t, t.TempDir())
	rig.OnCommit(func(int) faultdriver.Outcome { return faultdriver.Fails(errSync) })
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan error, 1)
	go func() {
		_, err := client.Start(ctx, l.dial(t), greet, "you")
		began <- err
	}()
	if err := <-l.ended; ExitCode(err) != ExitFatal {
		t.Errorf("have %v", err)
	}
	cancel()
	<-began
}

// A full disk is no end: the server says that it cannot write, and serves again
// when it can.
func TestADatabaseThatCannotWriteIsToldAndRecovers(t *testing.T) {
	rig := faultdriver.New(mattn.Driver())
	s := setup{driver: rig}
	l := s.run(t, t.TempDir())
	tried := make(chan struct{}, 1)
	rig.OnCommit(func(int) faultdriver.Outcome {
		select {
		case tried <- struct{}{}:
		default:
		}
		return faultdriver.RolledBack(errFull)
	})
	began := make(chan error, 1)
	go func() {
		_, err := client.Start(t.Context(), l.dial(t), greet, "you")
		began <- err
	}()
	<-tried
	<-tried // by now the first has failed, and is known to have
	if code, body := l.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "cannot") {
		t.Errorf("readyz: %d %q", code, body)
	}
	rig.OnCommit(nil)
	if err := <-began; err != nil {
		t.Error(err)
	}
	if code, body := l.get(t, "/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %q", code, body)
	}
}

func TestAPortInUseIsToldBeforeAFileIsMade(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, option := range []string{"grpc-address", "http-address"} {
		var s setup
		dir := t.TempDir()
		_, err := Open(t.Context(), s.options(t, dir, fmt.Sprintf("--%s=%s", option, taken.Addr())))
		want := fmt.Sprintf("%s (env %s): %s is in use by another process: stop that", option, config.Variable(option), taken.Addr())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") || ExitCode(err) != ExitFailure {
			t.Errorf("have %v, want %q", err, want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
			t.Errorf("it has made %v", files)
		}
	}
}

func TestADatabaseInUseIsToldAndNothingRuns(t *testing.T) {
	dir := t.TempDir()
	var first, second setup
	l := first.run(t, dir)
	o := second.options(t, dir)
	_, err := Open(t.Context(), o)
	if err == nil || !strings.HasPrefix(err.Error(), "database (env ENGINED_DATABASE): open database ") || !strings.Contains(err.Error(), "in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("have %v", err)
	}
	if err := l.Ready(); err != nil {
		t.Errorf("the first one is not ready: %v", err)
	}
	_, err = Open(t.Context(), second.options(t, t.TempDir(), "--database=/no/such/dir/x.db"))
	if err == nil || !strings.Contains(err.Error(), "its directory is missing") {
		t.Errorf("have %v", err)
	}
}

func TestAnotherNumberOfShardsThanTheFileHasIsRefused(t *testing.T) {
	dir := t.TempDir()
	var s setup
	if err := s.run(t, dir).end(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), s.options(t, dir, "--shards=4")); err == nil || !strings.Contains(err.Error(), "shards") {
		t.Errorf("have %v", err)
	}
}

// A name may lead to another address than when the configuration was checked.
func TestWhatIsBoundIsCheckedToo(t *testing.T) {
	var s setup
	o := s.options(t, t.TempDir())
	o.Config.GRPCAddress = "0.0.0.0:0"
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "beyond this machine's loopback") {
		t.Errorf("have %v", err)
	}
	l := s.run(t, t.TempDir(), "--grpc-address=:0", "--insecure=true")
	if at := netip.MustParseAddrPort(l.GRPCAddr().String()); at.Port() == 0 {
		t.Errorf("have %v", at)
	}
	if logs := s.err.String(); strings.Count(logs, "INSECURE") != 1 || !strings.Contains(logs, "level=WARN") || !strings.Contains(logs, "option=grpc-address") {
		t.Errorf("have the logs %q", logs)
	}
}

func TestAStopWhileItStartsIsNoFailure(t *testing.T) {
	var s setup
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, s.options(t, t.TempDir()), func(*Server) {}); err != nil {
		t.Errorf("have %v", err)
	}
}

func TestCloseCanBeCalledTwice(t *testing.T) {
	var s setup
	srv, err := Open(t.Context(), s.options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := srv.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := srv.Err(); err != nil {
		t.Errorf("have %v", err)
	}
}

// Nobody holds a connection for longer than the limits say.
func TestHTTPHasItsLimits(t *testing.T) {
	var s setup
	l := s.run(t, t.TempDir())
	h := l.http
	for name, limit := range map[string]time.Duration{
		"header": h.ReadHeaderTimeout, "read": h.ReadTimeout, "write": h.WriteTimeout, "idle": h.IdleTimeout,
	} {
		if limit <= 0 {
			t.Errorf("%s has no limit", name)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/healthz", l.HTTPAddr()), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 1<<20))
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 1 MiB is answered %d", res.StatusCode)
		}
	}
	if code, _ := l.get(t, "/nothing"); code != http.StatusNotFound {
		t.Errorf("have %d", code)
	}
}
