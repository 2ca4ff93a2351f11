package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

// Option says how messages are written.
type Option func(*settings)

type settings struct {
	codec   Codec
	savings float64
	deltas  bool
	file    bool // dictionaries cannot be replaced
}

// WithCodec has each buffer compressed, on the host, by as many goroutines as
// there are processors.
func WithCodec(c Codec) Option { return func(o *settings) { o.codec = c } }

// WithMinSavings leaves a buffer uncompressed unless that saves a share of it, in
// [0, 1]: with 0.1, one of 100 bytes unless 90 are enough.
func WithMinSavings(share float64) Option { return func(o *settings) { o.savings = share } }

// WithDeltas has a dictionary that grew at its end written as what was added. In a
// file, which arrow-go never writes so, it has no effect.
func WithDeltas() Option { return func(o *settings) { o.deltas = true } }

func optionsOf(options []Option) (*settings, error) {
	o := &settings{}
	for _, option := range options {
		option(o)
	}
	if o.codec < Uncompressed || o.codec > Zstd {
		return nil, fmt.Errorf("codec %d, expected Uncompressed, LZ4 or Zstd: %w", o.codec, arrow.ErrInvalid)
	}
	if math.IsNaN(o.savings) || o.savings < 0 || o.savings > 1 {
		return nil, fmt.Errorf("least savings of %v, expected a share in [0, 1]: %w", o.savings, arrow.ErrInvalid)
	}
	return o, nil
}
