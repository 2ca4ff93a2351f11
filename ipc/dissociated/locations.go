package dissociated

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Location is where a buffer lies: at an address, or that many bytes from the
// start of the memory that the server's handle opens.
type Location struct{ Address, Length uint64 }

// Locations are the buffers of a body, in the order of its metadata.
type Locations []Location

// total is the sum of the lengths.
func (l Locations) total() (sum uint64, ok bool) {
	for _, one := range l {
		var carry uint64
		if sum, carry = bits.Add64(sum, one.Length, 0); carry != 0 {
			return 0, false
		}
	}
	return sum, true
}

// Append writes the body of a Located message: the sum of the lengths, the
// number of buffers, and the pairs.
func (l Locations) Append(b []byte) []byte {
	total, _ := l.total()
	b = binary.LittleEndian.AppendUint64(b, total)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(l)))
	for _, one := range l {
		b = binary.LittleEndian.AppendUint64(b, one.Address)
		b = binary.LittleEndian.AppendUint64(b, one.Length)
	}
	return b
}

// ParseLocations reads what Append writes; anything else is ErrProtocol. Whether
// the locations lie in memory is not known here.
func ParseLocations(b []byte) (Locations, error) {
	const pair = 16
	if len(b) < pair || len(b)%pair != 0 {
		return nil, fmt.Errorf("%w: a located body of %d bytes, expected pairs of uint64", ErrProtocol, len(b))
	}
	total, count := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if b = b[pair:]; count != uint64(len(b)/pair) {
		return nil, fmt.Errorf("%w: a located body of %d buffers holds %d pairs", ErrProtocol, count, len(b)/pair)
	}
	l := make(Locations, count)
	for i := range l {
		l[i] = Location{binary.LittleEndian.Uint64(b[i*pair:]), binary.LittleEndian.Uint64(b[i*pair+8:])}
	}
	if sum, ok := l.total(); !ok || sum != total {
		return nil, fmt.Errorf("%w: a located body says %d bytes, its buffers have %d", ErrProtocol, total, sum)
	}
	return l, nil
}

// AppendFreed writes the body of a free_data message: the addresses that the
// server may use for something else.
func AppendFreed(b []byte, addresses ...uint64) []byte {
	for _, one := range addresses {
		b = binary.LittleEndian.AppendUint64(b, one)
	}
	return b
}

// ParseFreed reads what AppendFreed writes: one address at least. Anything else
// is ErrProtocol.
func ParseFreed(b []byte) ([]uint64, error) {
	if len(b) == 0 || len(b)%8 != 0 {
		return nil, fmt.Errorf("%w: a free_data message of %d bytes, expected one uint64 at least", ErrProtocol, len(b))
	}
	freed := make([]uint64, len(b)/8)
	for i := range freed {
		freed[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	return freed, nil
}
