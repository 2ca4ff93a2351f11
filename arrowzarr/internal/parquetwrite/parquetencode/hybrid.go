package parquetencode

import (
	"encoding/binary"
	"math/bits"
)

// minRun is the least number of equal numbers that become a run. Shorter ones take no
// more bytes packed, up to a width of 16.
const minRun = 16

// appendHybrid appends numbers of a width in bits in Parquet's mixture of run lengths and
// bit-packed groups of 8.
func appendHybrid[T uint32 | int16](dst []byte, numbers []T, width int) []byte {
	packed := 0 // the first number that is not appended
	for i := 0; i < len(numbers); {
		run := 1
		for i+run < len(numbers) && numbers[i+run] == numbers[i] {
			run++
		}
		if run < minRun && i+run < len(numbers) {
			i = min(i+8, len(numbers))
			continue
		}
		dst = appendPacked(dst, numbers[packed:i], width)
		dst = appendRun(dst, uint32(numbers[i]), run, width)
		i += run
		packed = i
	}
	return appendPacked(dst, numbers[packed:], width)
}

// appendRun appends a run of equal numbers.
func appendRun(dst []byte, number uint32, run, width int) []byte {
	dst = binary.AppendUvarint(dst, uint64(run)<<1)
	for b := 0; b < width; b += 8 {
		dst = append(dst, byte(number>>b))
	}
	return dst
}

// appendPacked appends bit-packed groups. The last one is padded with zeros, so only it
// may have fewer than 8 numbers.
func appendPacked[T uint32 | int16](dst []byte, numbers []T, width int) []byte {
	if len(numbers) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64((len(numbers)+7)/8)<<1|1)
	end := len(dst) + (len(numbers)+7)/8*width
	var word uint64
	have := 0
	for _, v := range numbers {
		word |= uint64(uint32(v)) << have
		if have += width; have >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(word))
			word >>= 32
			have -= 32
		}
	}
	for len(dst) < end {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst[:end]
}

// appendLevels appends levels of a page of version 1: their length, and the levels.
func appendLevels(dst []byte, levels []int16, highest int16) []byte {
	start := len(dst)
	dst = appendHybrid(append(dst, 0, 0, 0, 0), levels, bits.Len16(uint16(highest)))
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// appendEqualLevels is appendLevels of n levels that are all the highest.
func appendEqualLevels(dst []byte, n int, highest int16) []byte {
	start := len(dst)
	dst = appendRun(append(dst, 0, 0, 0, 0), uint32(highest), n, bits.Len16(uint16(highest)))
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
