package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// keyLog is bytes to which more are appended. Its first blocks are in a temporary file if
// they take more than their share of the memory.
type keyLog struct {
	memory   *categoryMemory
	length   int64
	blocks   [][]byte // each of keyBlockBytes but the last; nil if it is in the file
	spilled  int      // the blocks in the file
	file     *os.File // nil unless spilled > 0
	reserved int64
}

// keyBlockBytes is the size of a block of keys.
const keyBlockBytes = 256 << 10

// firstBlockBytes is the memory that a log begins with: most dictionaries are small.
const firstBlockBytes = 512

func (l *keyLog) append(p []byte) error {
	for len(p) > 0 {
		last := len(l.blocks) - 1
		if last < 0 || len(l.blocks[last]) == cap(l.blocks[last]) {
			if err := l.grow(); err != nil {
				return err
			}
			last = len(l.blocks) - 1
		}
		b := l.blocks[last]
		n := copy(b[len(b):cap(b)], p)
		l.blocks[last] = b[:len(b)+n]
		l.length += int64(n)
		p = p[n:]
	}
	return nil
}

// grow makes room in the last block, or adds one.
func (l *keyLog) grow() error {
	if len(l.blocks) == 1 && l.spilled == 0 && cap(l.blocks[0]) < keyBlockBytes {
		first := l.blocks[0]
		if err := l.reserve(int64(cap(first))); err != nil {
			return err
		}
		l.blocks[0] = append(make([]byte, 0, 2*cap(first)), first...)
		return nil
	}
	size := int64(keyBlockBytes)
	if len(l.blocks) == 0 {
		size = firstBlockBytes
	}
	if err := l.reserve(size); err != nil {
		return err
	}
	l.blocks = append(l.blocks, make([]byte, 0, size))
	return nil
}

// reserve reserves memory for keys. It writes blocks to the file if there is too little.
func (l *keyLog) reserve(n int64) error {
	if !l.memory.tryReserveKeys(n) {
		if err := l.spill(); err != nil {
			return err
		}
		if !l.memory.tryReserve(n) {
			return l.memory.full()
		}
		l.memory.addKeys(n)
	}
	l.reserved += n
	return nil
}

// spill writes all blocks that are full to the file.
func (l *keyLog) spill() error {
	for l.spilled < len(l.blocks) && len(l.blocks[l.spilled]) == keyBlockBytes {
		if err := l.spillBlock(); err != nil {
			return partErrorf(PartOutput, "keeping values of dictionaries in a temporary file: %w", err)
		}
	}
	return nil
}

func (l *keyLog) spillBlock() (err error) {
	if l.file == nil {
		if l.file, err = os.CreateTemp("", "arrow2zarr-dictionary-"); err != nil {
			return err
		}
		_ = os.Remove(l.file.Name()) // where that fails, close removes it
	}
	if _, err := l.file.WriteAt(l.blocks[l.spilled], int64(l.spilled)*keyBlockBytes); err != nil {
		return err
	}
	l.blocks[l.spilled] = nil
	l.spilled++
	l.memory.releaseKeys(keyBlockBytes)
	l.reserved -= keyBlockBytes
	return nil
}

// readAt reads bytes that the log has.
func (l *keyLog) readAt(p []byte, at int64) error {
	if onFile := int64(l.spilled)*keyBlockBytes - at; onFile > 0 {
		part := p[:min(onFile, int64(len(p)))]
		if n, err := l.file.ReadAt(part, at); n < len(part) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return partErrorf(PartOutput, "reading values of dictionaries in a temporary file: %w", err)
		}
		p, at = p[len(part):], at+int64(len(part))
	}
	for len(p) > 0 {
		n := copy(p, l.blocks[at/keyBlockBytes][at%keyBlockBytes:])
		p, at = p[n:], at+int64(n)
	}
	return nil
}

func (l *keyLog) close() {
	l.memory.releaseKeys(l.reserved)
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name())
	}
	*l = keyLog{memory: l.memory}
}

// keyReader reads keys of a log, each after its length.
type keyReader struct {
	log    *keyLog
	ahead  int    // bytes that are read at once from the file
	at     int64  // of the next key
	window []byte // that is read from there on
	own    []byte // memory
}

func (r *keyReader) seek(at int64) { r.at, r.window = at, nil }

// next returns the next key, which must exist, until the next call.
func (r *keyReader) next() ([]byte, error) {
	size, n := binary.Uvarint(r.window)
	for need := binary.MaxVarintLen64; n <= 0 || uint64(len(r.window)-n) < size; need = n + int(size) {
		if err := r.fill(need); err != nil {
			return nil, err
		}
		if size, n = binary.Uvarint(r.window); n <= 0 {
			return nil, fmt.Errorf("no key at %d of %d bytes: %w", r.at, r.log.length, arrowdata.ErrMalformed)
		}
	}
	end := n + int(size)
	key := r.window[n:end]
	r.at, r.window = r.at+int64(end), r.window[end:]
	return key, nil
}

// fill makes the window as long as needed, or as the rest of the log.
func (r *keyReader) fill(need int) error {
	if block := int(r.at / keyBlockBytes); block >= r.log.spilled && block < len(r.log.blocks) {
		rest := r.log.blocks[block][r.at%keyBlockBytes:]
		if len(rest) >= need || block == len(r.log.blocks)-1 {
			r.window = rest
			return nil
		}
	}
	n := min(int64(max(need, r.ahead)), r.log.length-r.at)
	r.own = slices.Grow(r.own[:0], int(n))[:n]
	r.window = r.own
	return r.log.readAt(r.own, r.at)
}
