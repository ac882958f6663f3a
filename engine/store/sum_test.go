package store

import (
	"reflect"
	"testing"
)

var (
	goldenRun = RunRow{Run: 1<<48 | 7, Namespace: "default", WorkflowID: "order-1", RunID: "01J", Type: "Order", Status: 3,
		Open: true, Attention: true, Version: 5, NextEvent: 9, Pending: 2, Started: 1000, Closed: 2000, Request: "r", State: []byte("state")}
	goldenEvents  = EventRow{Run: 7, First: 2, Last: 4, Data: []byte("events")}
	goldenPending = PendingRow{Run: 7, Op: "0/1", Wake: 99, Data: []byte("pending")}
	goldenDedup   = DedupRow{Namespace: "default", WorkflowID: "order-1", Request: "r", Run: 7, Expires: 50, Data: []byte("dedup")}
	goldenLease   = Lease{Shard: 3, Epoch: 12, NextRun: 1}
)

// The sums stand in files: these numbers never change.
func TestSumsStayAsTheyAreOnDisk(t *testing.T) {
	for name, c := range map[string]struct{ got, want int64 }{
		"run":     {goldenRun.Sum(), 1884121507},
		"events":  {goldenEvents.Sum(), 3840833351},
		"pending": {goldenPending.Sum(), 678612851},
		"dedup":   {goldenDedup.Sum(), 3629704065},
		"lease":   {goldenLease.Sum(), 1226449766},
		"meta":    {MetaSum("shards", 16), 1000845765},
	} {
		if c.got != c.want {
			t.Errorf("%s: sum %d, want %d", name, c.got, c.want)
		}
	}
}

func TestEveryFieldIsInItsSum(t *testing.T) {
	check(t, goldenRun, func(r RunRow) int64 { return r.Sum() })
	check(t, goldenEvents, func(r EventRow) int64 { return r.Sum() })
	check(t, goldenPending, func(r PendingRow) int64 { return r.Sum() })
	check(t, goldenDedup, func(r DedupRow) int64 { return r.Sum() })
	check(t, goldenLease, func(r Lease) int64 { return r.Sum() })
}

// check changes one field at a time.
func check[T any](t *testing.T, row T, sum func(T) int64) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	for i := range typ.NumField() {
		changed := row
		switch f := reflect.ValueOf(&changed).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.Slice:
			f.SetBytes(append([]byte("x"), f.Bytes()...))
		case reflect.Uint16:
			f.SetUint(f.Uint() + 1)
		default:
			f.SetInt(f.Int() + 1)
		}
		if sum(changed) == sum(row) {
			t.Errorf("%s.%s is not in the sum", typ.Name(), typ.Field(i).Name)
		}
	}
}

func TestBytesThatMoveToTheNextFieldChangeTheSum(t *testing.T) {
	moved := goldenRun
	moved.Namespace, moved.WorkflowID = "defaul", "torder-1"
	if moved.Sum() == goldenRun.Sum() {
		t.Error("a run has the sum of another")
	}
	d := goldenDedup
	d.WorkflowID, d.Request = "order-", "1r"
	if d.Sum() == goldenDedup.Sum() {
		t.Error("a dedup row has the sum of another")
	}
}
