package arrowipc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"golang.org/x/sync/errgroup"
)

// compress compresses each buffer of a body, as arrow-go's writer does: with the
// same encoders, whose options are those, so that the bytes are the same. How long
// a buffer becomes has to be known before the first is written, so they stay in
// memory until then, compressed.
func (o *settings) compress(parts []piece) error {
	todo := make(chan int, len(parts))
	for i := range parts {
		if parts[i].length > 0 {
			todo <- i
		}
	}
	close(todo)
	var work errgroup.Group
	for range min(runtime.GOMAXPROCS(0), len(todo)) {
		work.Go(func() error {
			encoder := encoders[o.codec].Get().(encoder)
			defer encoders[o.codec].Put(encoder)
			for i := range todo {
				if err := o.compressOne(encoder, &parts[i]); err != nil {
					return fmt.Errorf("compressing buffer %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return work.Wait()
}

// encoder is one of zstd or LZ4.
type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoders are kept, since each has much memory.
var encoders = [...]sync.Pool{
	LZ4: {New: func() any {
		w := lz4.NewWriter(nil)
		return must(w, w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)))
	}},
	Zstd: {New: func() any { return must(zstd.NewWriter(nil)) }},
}

// must is for options that are constants.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func (o *settings) compressOne(e encoder, p *piece) error {
	plain, err := p.bytes()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(plain))))
	e.Reset(&out)
	if _, err := e.Write(plain); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	packed := out.Bytes()
	saved := 1 - float64(len(packed)-prefixLength)/float64(len(plain))
	if o.savings != 0 && saved < o.savings {
		const notCompressed = math.MaxUint64
		packed = append(binary.LittleEndian.AppendUint64(nil, notCompressed), plain...)
	}
	*p = computed(int64(len(packed)), func() ([]byte, error) { return packed, nil })
	return nil
}
