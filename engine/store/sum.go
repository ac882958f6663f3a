package store

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A row's checksum is CRC-32C (RFC 3720) over its key and content, each string
// preceded by its length, so that no two rows have the same bytes. It stands in
// the row and is checked on every read.

type sum struct {
	crc uint32
	buf [8]byte
}

func (s *sum) num(n int64) {
	binary.LittleEndian.PutUint64(s.buf[:], uint64(n))
	s.crc = crc32.Update(s.crc, castagnoli, s.buf[:])
}

func (s *sum) flag(b bool) {
	if b {
		s.num(1)
	} else {
		s.num(0)
	}
}

func (s *sum) bytes(b []byte) {
	s.num(int64(len(b)))
	s.crc = crc32.Update(s.crc, castagnoli, b)
}

func (s *sum) text(t string) { s.bytes([]byte(t)) }

// Sum returns the checksum of the row.
func (r *RunRow) Sum() int64 {
	var s sum
	s.num(int64(r.Run))
	s.text(r.Namespace)
	s.text(r.WorkflowID)
	s.text(r.RunID)
	s.text(r.Type)
	s.num(int64(r.Status))
	s.flag(r.Open)
	s.flag(r.Attention)
	s.num(r.Version)
	s.num(r.NextEvent)
	s.num(r.Pending)
	s.num(r.Started)
	s.num(r.Closed)
	s.text(r.Request)
	s.bytes(r.State)
	return int64(s.crc)
}

// Sum returns the checksum of the row.
func (r *EventRow) Sum() int64 {
	var s sum
	s.num(int64(r.Run))
	s.num(r.First)
	s.num(r.Last)
	s.bytes(r.Data)
	return int64(s.crc)
}

// Sum returns the checksum of the row.
func (r *PendingRow) Sum() int64 {
	var s sum
	s.num(int64(r.Run))
	s.text(r.Op)
	s.num(r.Wake)
	s.bytes(r.Data)
	return int64(s.crc)
}

// Sum returns the checksum of the row.
func (r *DedupRow) Sum() int64 {
	var s sum
	s.text(r.Namespace)
	s.text(r.WorkflowID)
	s.text(r.Request)
	s.num(int64(r.Run))
	s.num(r.Expires)
	s.bytes(r.Data)
	return int64(s.crc)
}

// Sum returns the checksum of the row of a shard, of which NextRun is the next
// counter that is free.
func (l *Lease) Sum() int64 {
	var s sum
	s.num(int64(l.Shard))
	s.num(l.Epoch)
	s.num(l.NextRun)
	return int64(s.crc)
}

// MetaSum returns the checksum of a named number that describes the database.
func MetaSum(name string, value int64) int64 {
	var s sum
	s.text(name)
	s.num(value)
	return int64(s.crc)
}
