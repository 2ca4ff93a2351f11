package arrowzarr

import (
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/zarr"
)

// stage counts the work of one stage of the pipeline. The time is the sum over
// all goroutines, so that bytes over time is the rate of one of them.
type stage struct {
	bytes atomic.Int64
	nanos atomic.Int64
}

func (s *stage) add(n int64, d time.Duration) {
	s.bytes.Add(n)
	s.nanos.Add(int64(d))
}

// Stage is the work that one stage of a conversion did.
type Stage struct {
	// Name is read, h2d, kernels, d2h, encode or write.
	Name string `json:"name"`
	// Bytes that the stage handled: encoded ones for write, raw ones else.
	Bytes int64 `json:"bytes"`
	// Seconds that the stage took, added up over goroutines.
	Seconds float64 `json:"seconds"`
	// BytesPerSecond is Bytes over Seconds; 0 for a stage without work.
	BytesPerSecond float64 `json:"bytes_per_second"`
}

func (s *stage) report(name string) Stage {
	r := Stage{Name: name, Bytes: s.bytes.Load(), Seconds: time.Duration(s.nanos.Load()).Seconds()}
	if r.Seconds > 0 {
		r.BytesPerSecond = float64(r.Bytes) / r.Seconds
	}
	return r
}

// stages are those of one conversion.
type stages struct {
	read, h2d, kernels, d2h, encode, write stage
}

func (s *stages) report() []Stage {
	return []Stage{
		s.read.report("read"), s.h2d.report("h2d"), s.kernels.report("kernels"),
		s.d2h.report("d2h"), s.encode.report("encode"), s.write.report("write"),
	}
}

// trace counts what writing the arrays does.
func (s *stages) trace() *zarr.Trace {
	return &zarr.Trace{
		ToHost: s.d2h.add,
		Encode: func(raw, _ int64, took time.Duration) { s.encode.add(raw, took) },
		Store:  s.write.add,
	}
}
