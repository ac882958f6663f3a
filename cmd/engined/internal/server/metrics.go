package server

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/engined/engined/engine"
	pb "github.com/engined/engined/proto/enginepb"
)

// metric is a line of the table: what of the engine's counters is shown, and
// how it is documented.
type metric struct {
	name, label, help string
	kind              prometheus.ValueType
	// read calls show once, or once for each value of the label.
	read func(s engine.Stats, show func(v float64, label ...string))
}

var table = []metric{
	counter("engined_runs_started_total", "Runs started.", func(s engine.Stats) int64 { return s.RunsStarted }),
	{"engined_runs_closed_total", "status", "Runs closed, by the status that was decided.", prometheus.CounterValue,
		func(s engine.Stats, show func(float64, ...string)) {
			for st, word := range closedStatuses {
				show(float64(s.RunsClosed[st]), word)
			}
		}},
	counter("engined_commits_total", "Commits to the database: one transaction and one sync each.", func(s engine.Stats) int64 { return s.Commits }),
	counter("engined_rows_total", "Runs written by commits: a row of each, with its events and operations.", func(s engine.Stats) int64 { return s.Rows }),
	{"engined_commit_failures_total", "kind", "Commits that failed, by how they ended: refused, lease_lost, unavailable (tried again), unknown (read again).", prometheus.CounterValue,
		func(s engine.Stats, show func(float64, ...string)) {
			show(float64(s.Refused), "refused")
			show(float64(s.LeasesLost), "lease_lost")
			show(float64(s.Unavailable), "unavailable")
			show(float64(s.Unknown), "unknown")
		}},
	counter("engined_tasks_total", "Tasks handed to workers, repeated hand-overs included.", func(s engine.Stats) int64 { return s.Tasks }),
	{"engined_task_outcomes_total", "outcome", "Attempts of activities and undos, by how they were settled: answered, lost with their worker, or out of time.", prometheus.CounterValue,
		func(s engine.Stats, show func(float64, ...string)) {
			for o, word := range outcomes {
				show(float64(s.Outcomes[o]), word)
			}
		}},
	counter("engined_unreadable_reads_total", "Reads of runs that failed, as of damaged rows; the log names them.", func(s engine.Stats) int64 { return s.Unreadable }),
	counter("engined_workers_lost_total", "Workers whose stream broke or fell silent.", func(s engine.Stats) int64 { return s.WorkersLost }),
	gauge("engined_workers", "Workers connected.", func(s engine.Stats) int { return s.Workers }),
	gauge("engined_slots", "Slots for activities that the connected workers have.", func(s engine.Stats) int { return s.Slots }),
	gauge("engined_slots_used", "Slots in use.", func(s engine.Stats) int { return s.SlotsUsed }),
	gauge("engined_waiting_runs", "Runs that wait for a worker.", func(s engine.Stats) int { return s.WaitingRuns }),
	gauge("engined_waiting_tasks", "Tasks that wait for a slot.", func(s engine.Stats) int { return s.WaitingTasks }),
	{"engined_held_runs", "kind", "Runs that do not go on until somebody acts: stuck or quarantined; of those seen since the start.", prometheus.GaugeValue,
		func(s engine.Stats, show func(float64, ...string)) {
			show(float64(s.Held[pb.HoldKind_HOLD_KIND_STUCK]), "stuck")
			show(float64(s.Held[pb.HoldKind_HOLD_KIND_QUARANTINED]), "quarantined")
		}},
	gauge("engined_undo_failed_runs", "Runs whose compensation has failed; of those seen since the start.", func(s engine.Stats) int { return s.UndoFailed }),
	gauge("engined_resident_runs", "Runs in memory.", func(s engine.Stats) int { return s.Resident }),
	gauge("engined_mailbox_depth", "Inputs that wait for a shard.", func(s engine.Stats) int { return s.Mailbox }),
}

func counter(name, help string, value func(engine.Stats) int64) metric {
	return metric{name: name, help: help, kind: prometheus.CounterValue,
		read: func(s engine.Stats, show func(float64, ...string)) { show(float64(value(s))) }}
}

func gauge(name, help string, value func(engine.Stats) int) metric {
	return metric{name: name, help: help, kind: prometheus.GaugeValue,
		read: func(s engine.Stats, show func(float64, ...string)) { show(float64(value(s))) }}
}

// Every value of a label is there from the start, at 0: a rate can be taken of
// the first one, too.
var (
	closedStatuses = words[pb.Status](pb.Status_name, "STATUS_", "unspecified", "running")
	outcomes       = words[pb.Outcome](pb.Outcome_name, "OUTCOME_", "unspecified")
)

func words[E ~int32](names map[int32]string, prefix string, without ...string) map[E]string {
	all := map[E]string{}
	for n, name := range names {
		if word := strings.ToLower(strings.TrimPrefix(name, prefix)); !slices.Contains(without, word) {
			all[E(n)] = word
		}
	}
	return all
}

// The metrics that are no lines of the table.
const (
	readyName     = "engined_ready"
	readyHelp     = "1 while requests are served, else 0; /readyz says why."
	buildName     = "engined_build_info"
	buildHelp     = "Always 1; the labels say which build runs."
	commitName    = "engined_commit_duration_seconds"
	commitHelp    = "How long commits took."
	requestsName  = "engined_requests_total"
	requestsHelp  = "Calls answered over gRPC. A worker's stream is one call."
	durationsName = "engined_request_duration_seconds"
	durationsHelp = "How long calls took. Await and a worker's stream last as long as what they wait for."
)

// metrics is a registry of its own, and what is counted here.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newMetrics(b Build, s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsName, Help: requestsHelp}, []string{"method", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: durationsName, Help: durationsHelp,
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .5, 2, 10, 60},
		}, []string{"method"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: buildName, Help: buildHelp,
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go, "protocol": fmt.Sprint(Protocol)},
	})
	build.Set(1)
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: readyName, Help: readyHelp}, func() float64 {
		if s.Ready() != nil {
			return 0
		}
		return 1
	})
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, ready, m.requests, m.took, newEngineCollector(s.running),
	)
	return m
}

func (m *metrics) observe(method, code string, took time.Duration) {
	m.requests.WithLabelValues(method, code).Inc()
	m.took.WithLabelValues(method).Observe(took.Seconds())
}

func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 4,
	})
}

// engineCollector reads the engine's counters once a scrape.
type engineCollector struct {
	running func() *engine.Engine // nil while it starts
	table   []*prometheus.Desc    // as table
	commits *prometheus.Desc
}

func newEngineCollector(running func() *engine.Engine) *engineCollector {
	c := &engineCollector{running: running, commits: prometheus.NewDesc(commitName, commitHelp, nil, nil)}
	for _, m := range table {
		var labels []string
		if m.label != "" {
			labels = []string{m.label}
		}
		c.table = append(c.table, prometheus.NewDesc(m.name, m.help, labels, nil))
	}
	return c
}

// Describe fulfils prometheus.Collector.
func (c *engineCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.table {
		to <- d
	}
	to <- c.commits
}

// Collect fulfils prometheus.Collector.
func (c *engineCollector) Collect(to chan<- prometheus.Metric) {
	e := c.running()
	if e == nil {
		return
	}
	s := e.Stats()
	for i, m := range table {
		m.read(s, func(v float64, label ...string) {
			to <- prometheus.MustNewConstMetric(c.table[i], m.kind, v, label...)
		})
	}
	to <- commitHistogram(c.commits, s)
}

func commitHistogram(d *prometheus.Desc, s engine.Stats) prometheus.Metric {
	upTo, n := map[float64]uint64{}, uint64(0)
	for i, count := range s.CommitCounts {
		n += uint64(count)
		if i < len(engine.CommitBuckets) {
			upTo[engine.CommitBuckets[i].Seconds()] = n
		}
	}
	return prometheus.MustNewConstHistogram(d, n, s.CommitTime.Seconds(), upTo)
}

// MetricDocs writes the documentation of /metrics, as Markdown.
func MetricDocs(w io.Writer) error {
	var b strings.Builder
	row := func(name, kind, labels, help string) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, labels, help)
	}
	b.WriteString("| Name | Kind | Labels | What |\n|---|---|---|---|\n")
	row(readyName, "gauge", "", readyHelp)
	row(buildName, "gauge", "version, commit, go, protocol", buildHelp)
	row(requestsName, "counter", "method, code", requestsHelp)
	row(durationsName, "histogram", "method", durationsHelp)
	for _, m := range table {
		kind := "counter"
		if m.kind == prometheus.GaugeValue {
			kind = "gauge"
		}
		row(m.name, kind, labelDocs(m), m.help)
	}
	row(commitName, "histogram", "", commitHelp)
	_, err := io.WriteString(w, b.String())
	return err
}

// labelDocs names the label and the words that it takes.
func labelDocs(m metric) string {
	seen := map[string]bool{}
	m.read(engine.Stats{}, func(_ float64, label ...string) {
		for _, l := range label {
			seen[l] = true
		}
	})
	if len(seen) == 0 {
		return ""
	}
	return m.label + ": " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}
