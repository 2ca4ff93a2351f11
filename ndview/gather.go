package ndview

// gather copies elements of width bytes, laid out in span by strides from
// position at, to dst in C order. There is at least one axis, and no extent is
// 0. The innermost axis runs in one loop; where it is gapless, in one copy.
func gather(dst, span []byte, at, width int64, shape, strides []int64) {
	if len(shape) == 1 {
		gatherRow(dst, span, at, width, shape[0], strides[0])
		return
	}
	rest := int64(len(dst)) / shape[0]
	for i := range shape[0] {
		gather(dst[i*rest:(i+1)*rest], span, at+i*strides[0], width, shape[1:], strides[1:])
	}
}

func gatherRow(dst, span []byte, at, width, n, stride int64) {
	if stride == width {
		copy(dst, span[at:at+n*width])
		return
	}
	for i := range n {
		copy(dst[i*width:(i+1)*width], span[at+i*stride:])
	}
}
