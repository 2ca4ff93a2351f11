package arrowzarr

import (
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Memory is shared out before it is taken, so that Options.MaxMemory holds on
// any number of cores and however long the kernel lets one of them wait. Of what
// programMemory leaves
//
//	1/2  is for batches that are held: read, waiting, or at work,
//	1/16 for idle buffers that the next batch will want,
//	1/4  for work: chunks that are made and encoded,
//
// and 3/16 is for what Go's collector has not found yet. The values of
// dictionaries stay until the end: where they would take as much as the batches may, the
// conversion ends (shelf). The collector keeps
// Go's heap within 13/16. It does not count the pages of a mapped input and the
// tables of libzstd, which take at most three quarters of the work's share,
// since outside makes them weigh a third more. For a GPU what is held is pinned
// memory, which Go does not count either.
const (
	heldShare = 2
	idleShare = 16
	workShare = 4
)

// outside is what n bytes outside of Go's heap weigh in the share of the work.
func outside(n int64) int64 { return n + n/3 }

// programMemory is what the program takes beside the rows: the pages of its
// code, as the kernel maps them in large folios, and its threads.
const programMemory = 48 << 20

// minMemory is what a conversion needs to turn around in.
const minMemory = 256 << 20

// GoMemoryLimit is what a program that does nothing but Convert has to give
// [runtime/debug.SetMemoryLimit] for MaxMemory to hold. Go's collector would else
// let its heap grow to twice of what is in use.
func (o Options) GoMemoryLimit() int64 {
	all := o.MaxMemory
	if all == 0 {
		all = DefaultMaxMemory
	}
	all = max(all, minMemory) - programMemory
	limit := all - all/workShare/4*3
	if o.Device != nil && o.Device.Type() != arrowbuf.DeviceCPU {
		limit -= all / heldShare
	}
	return limit
}

// tables is the memory that a codec takes beside a chunk of n bytes and its
// encoded form.
func (c Codec) tables(n float64) float64 {
	const mib = 1 << 20
	switch {
	case c.Name == "none":
		return 0
	case c.Name == "gzip":
		return mib
	}
	// What ZSTD_sizeof_CCtx of libzstd 1.5 says: tables have a size by the
	// level, but grow with the chunk only to 16 bytes a byte.
	byLevel := 0.75 * mib
	switch {
	case c.Level > 12:
		byLevel = 1024 * mib
	case c.Level > 9:
		byLevel = 49 * mib
	case c.Level > 7:
		byLevel = 13 * mib
	case c.Level > 5:
		byLevel = 7 * mib
	case c.Level > 2, c.Level == 0:
		byLevel = 4 * mib
	}
	return min(byLevel, 2*mib+16*n)
}
