package arrowzarr

import "sync/atomic"

// Progress is how far a conversion is. Its methods may be called from any
// goroutine while the conversion runs.
type Progress struct {
	rows, rowsTotal, input, inputTotal, raw atomic.Int64
}

// Rows is the number of rows that are written, and of how many; the total is -1
// where only reading on tells.
func (p *Progress) Rows() (done, total int64) { return p.rows.Load(), p.rowsTotal.Load() }

// Input is the number of bytes of the input that are read, and of how many; the
// total is -1 where the input is a pipe.
func (p *Progress) Input() (done, total int64) { return p.input.Load(), p.inputTotal.Load() }

// Bytes is the number of raw bytes that are converted.
func (p *Progress) Bytes() int64 { return p.raw.Load() }
