package shuffle

// Bits shuffles the bits of n elements of size bytes. Row 8*b+k of the result has n/8
// bytes; bit j of its byte i is bit k of byte b of element 8*i+j. Bits and bytes count
// from the least significant. Bytes after the last whole element are copied. If n is
// not a multiple of 8, all bytes are copied, as in the Blosc format.
//
// dst must have the length of src and must not overlap it. Bits returns an error if it
// has another length or if size is less than 1.
func Bits(dst, src []byte, size int) error {
	n, err := elements("Bits", dst, src, size)
	if err != nil {
		return err
	}
	if n%8 != 0 {
		copy(dst, src)
		return nil
	}
	planes := src
	if size > 1 {
		planes = make([]byte, n*size)
		if err := Bytes(planes, src[:n*size], size); err != nil {
			return err
		}
	}
	row := n / 8
	var m [8]uint64
	for b := range size {
		plane, rows := planes[b*n:(b+1)*n], dst[b*n:(b+1)*n]
		i := 0
		for ; i+8 <= row; i += 8 {
			for j := range m {
				m[j] = transposeBits(le.Uint64(plane[8*(i+j):]))
			}
			transpose8(&m)
			for k, word := range m {
				le.PutUint64(rows[k*row+i:], word)
			}
		}
		for ; i < row; i++ {
			word := transposeBits(le.Uint64(plane[8*i:]))
			for k := range 8 {
				rows[k*row+i] = byte(word >> (8 * k))
			}
		}
	}
	copy(dst[n*size:], src[n*size:])
	return nil
}

// UnshuffleBits is the inverse of [Bits].
func UnshuffleBits(dst, src []byte, size int) error {
	n, err := elements("UnshuffleBits", dst, src, size)
	if err != nil {
		return err
	}
	if n%8 != 0 {
		copy(dst, src)
		return nil
	}
	planes := dst
	if size > 1 {
		planes = make([]byte, n*size)
	}
	row := n / 8
	var m [8]uint64
	for b := range size {
		plane, rows := planes[b*n:(b+1)*n], src[b*n:(b+1)*n]
		i := 0
		for ; i+8 <= row; i += 8 {
			for k := range m {
				m[k] = le.Uint64(rows[k*row+i:])
			}
			transpose8(&m)
			for j, word := range m {
				le.PutUint64(plane[8*(i+j):], transposeBits(word))
			}
		}
		for ; i < row; i++ {
			var word uint64
			for k := range 8 {
				word |= uint64(rows[k*row+i]) << (8 * k)
			}
			le.PutUint64(plane[8*i:], transposeBits(word))
		}
	}
	if size > 1 {
		if err := UnshuffleBytes(dst[:n*size], planes, size); err != nil {
			return err
		}
	}
	copy(dst[n*size:], src[n*size:])
	return nil
}

// transposeBits transposes a matrix of 8 by 8 bits, whose rows are the bytes of x.
func transposeBits(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}
