package zarr

import (
	"time"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Trace is told how long the stages of writing take. Any function may be nil;
// they are called from the goroutines that write, several at once.
type Trace struct {
	// ToHost: the elements of a chunk came from a device to the host.
	ToHost func(bytes int64, took time.Duration)
	// Encode: the codecs turned a chunk's elements into bytes; into none, for
	// a chunk of fill values. The time is without that of ToHost.
	Encode func(raw, encoded int64, took time.Duration)
	// Store: the store took bytes.
	Store func(bytes int64, took time.Duration)
}

// encode runs a chain, and tells the trace.
func (t *Trace) encode(chain *codec.Chain, s *codec.Scratch, v element.Values) ([]byte, error) {
	if t == nil {
		return chain.Encode(s, v)
	}
	var copying time.Duration
	s.OnHost = func(bytes int64, took time.Duration) {
		copying += took
		if t.ToHost != nil {
			t.ToHost(bytes, took)
		}
	}
	start := time.Now()
	enc, err := chain.Encode(s, v)
	if err == nil && t.Encode != nil {
		t.Encode(rawBytes(v), int64(len(enc)), time.Since(start)-copying)
	}
	return enc, err
}

// store runs a call that gives bytes to the store, and tells the trace.
func (t *Trace) store(bytes int, call func() error) error {
	if t == nil || t.Store == nil {
		return call()
	}
	start := time.Now()
	err := call()
	if err == nil {
		t.Store(int64(bytes), time.Since(start))
	}
	return err
}

func rawBytes(v element.Values) int64 {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return v.NBytes()
	case *element.VLen:
		return v.NBytes()
	default:
		return 0
	}
}
