package cpu

import "unsafe"

// sheet is a part of a plane whose rows are together before they are written: as
// their addresses may compete for the same places in the cache, or to be streamed.
// It holds those columns of so many rows that a line of the source has.
type sheet struct {
	bytes   [side * block]byte
	streams bool // large results are
}

// streamedRow is from how many bytes on a row is streamed: of a shorter one, too
// much is in lines of which it has a part.
const streamedRow = 512

func (s *sheet) turn(q *square, dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, width int64) {
	at := unsafe.Pointer(&s.bytes)
	q.many(at, side*width, src, srcStep, block/width/q.columns, side/q.rows)
	copyRows(dst, dstStep, at, side*width/block, block/width)
}

// takes tells whether rows are worth being streamed: long ones, those that are as
// one, and those of whole lines.
func (s *sheet) takes(dst unsafe.Pointer, step, bytes int64) bool {
	return bytes >= streamedRow || step == bytes || (int64(uintptr(dst))|step|bytes)%block == 0
}

// stream writes rows that have no gaps in the sheet.
func (s *sheet) stream(dst unsafe.Pointer, step, rows, bytes int64) {
	at := unsafe.Pointer(&s.bytes)
	if step == bytes {
		Stream(dst, at, rows*bytes)
		return
	}
	for k := range rows {
		Stream(unsafe.Add(dst, k*step), unsafe.Add(at, k*bytes), bytes)
	}
}

// end lets others see what was streamed.
func (s *sheet) end() {
	if s.streams {
		StreamEnd()
	}
}

// streamLine is copyLine to where there are no gaps.
func streamLine[T unit](dst, src unsafe.Pointer, l line, by *sheet) {
	if l.src == l.dst {
		Stream(dst, src, l.n*l.dst)
		return
	}
	at, most := unsafe.Pointer(&by.bytes), StreamBlock/l.dst
	for i := int64(0); i < l.n; i += most {
		n := min(most, l.n-i)
		copyLine[T](at, unsafe.Add(src, i*l.src), line{n, l.dst, l.src})
		Stream(unsafe.Add(dst, i*l.dst), at, n*l.dst)
	}
}
