package arrowzarr

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
)

// Progress counts what a conversion has done so far. Its methods may be called from
// any goroutine while the conversion runs.
type Progress struct {
	rows, rowsTotal, input, inputTotal, raw atomic.Int64
}

// Rows returns the number of rows that are written and the number of rows of the
// input. The total is -1 if the input does not say it in advance.
func (p *Progress) Rows() (done, total int64) { return p.rows.Load(), p.rowsTotal.Load() }

// Input returns the number of bytes of the input that are read, and its size. The
// total is -1 if the input is a pipe.
func (p *Progress) Input() (done, total int64) { return p.input.Load(), p.inputTotal.Load() }

// Bytes returns the number of uncompressed bytes that are written.
func (p *Progress) Bytes() int64 { return p.raw.Load() }

// stageStats counts the bytes of one stage of the pipeline, and the time in which at
// least one goroutine was at work there.
type stageStats struct {
	mu        sync.Mutex
	bytes     int64
	busy      time.Duration // of old intervals, which no new one overlaps
	intervals []interval    // recent ones: disjoint, in order
}

// maxIntervals bounds the recent intervals. When it is reached, the older half is
// added up: work that ends now began after those ended.
const maxIntervals = 1 << 10

type interval struct{ start, end time.Time }

// record counts work on a number of bytes that has just ended.
func (s *stageStats) record(bytes int64, took time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += bytes
	// The new interval joins all that end after it began.
	joined := interval{now.Add(-took), now}
	n := len(s.intervals)
	for n > 0 && !s.intervals[n-1].end.Before(joined.start) {
		n--
		if s.intervals[n].start.Before(joined.start) {
			joined.start = s.intervals[n].start
		}
	}
	s.intervals = append(s.intervals[:n], joined)
	if len(s.intervals) == maxIntervals {
		for _, old := range s.intervals[:maxIntervals/2] {
			s.busy += old.end.Sub(old.start)
		}
		s.intervals = slices.Delete(s.intervals, 0, maxIntervals/2)
	}
}

// total returns the number of bytes.
func (s *stageStats) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Stage is the work that one stage of a conversion did.
type Stage struct {
	// Name is read, h2d, kernels, d2h, encode or write.
	Name string `json:"name"`
	// Bytes is encoded bytes for write, and uncompressed bytes otherwise.
	Bytes int64 `json:"bytes"`
	// Seconds is the time in which at least one goroutine was at work in the
	// stage. Stages overlap, so the sum of their times has no meaning.
	Seconds float64 `json:"seconds"`
	// BytesPerSecond is Bytes over Seconds; 0 for a stage that did nothing.
	BytesPerSecond float64 `json:"bytes_per_second"`
}

func (s *stageStats) report(name string) Stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Stage{Name: name, Bytes: s.bytes, Seconds: s.busy.Seconds()}
	for _, busy := range s.intervals {
		r.Seconds += busy.end.Sub(busy.start).Seconds()
	}
	if r.Seconds > 0 {
		r.BytesPerSecond = float64(r.Bytes) / r.Seconds
	}
	return r
}

// pipelineStats are the statistics of one conversion.
type pipelineStats struct {
	read, h2d, kernels, d2h, encode, write stageStats

	codecs codec.Stats
}

func (s *pipelineStats) report() []Stage {
	return []Stage{
		s.read.report("read"), s.h2d.report("h2d"), s.kernels.report("kernels"),
		s.d2h.report("d2h"), s.encode.report("encode"), s.write.report("write"),
	}
}

// trace records what writing the arrays does.
func (s *pipelineStats) trace() *zarr.Trace {
	return &zarr.Trace{
		ToHost: s.d2h.record,
		Encode: func(raw, _ int64, took time.Duration) { s.encode.record(raw, took) },
		Store:  s.write.record,
	}
}
