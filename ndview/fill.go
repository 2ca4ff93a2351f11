package ndview

import (
	"encoding/binary"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Fill writes one value to all elements, of any strides: what [ScalarOf] takes,
// as the bytes that [Scalar.Bytes] makes of it. So a -0 is kept, and all bits of
// a NaN that has the type of a already.
func (a *NDBuffer) Fill(value any) error {
	s, err := ScalarOf(value)
	if err != nil {
		return err
	}
	element, err := s.Bytes(a.dtype)
	if err != nil {
		return err
	}
	return a.fillBits(element)
}

// Zero sets every byte of the elements to 0.
func (a *NDBuffer) Zero() error { return a.fillBits(make([]byte, a.dtype.Size())) }

// fillBits writes the bytes of one element to all.
func (a *NDBuffer) fillBits(element []byte) error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if a.Size() == 0 {
		return nil
	}
	n := layout.Collapse(a.shape, a.strides)
	gapless := len(n.Shape) == 0 || len(n.Shape) == 1 && n.Strides[0][0] == a.dtype.Size()
	start := a.offset + n.Offsets[0]
	if to, ok := hostAt(a.buf, start); ok && gapless {
		cpu.Fill(to, a.NBytes(), element, 0)
		return nil
	}
	if gapless && 16%len(element) == 0 {
		return a.launchFill(start, element)
	}
	one, err := fromBytes(a.Device(), a.dtype, element)
	if err != nil {
		return err
	}
	defer one.Release()
	return a.copyStretched(one)
}

// launchFill fills gapless memory from a place of the buffer on.
func (a *NDBuffer) launchFill(start int64, element []byte) error {
	turn := (int64(a.buf.Address()) + start) % 16
	var pattern [16]byte
	for i := range pattern {
		pattern[i] = element[(int64(i)+16-turn)%int64(len(element))]
	}
	low, high := binary.LittleEndian.Uint64(pattern[:8]), binary.LittleEndian.Uint64(pattern[8:])
	return launch.Items(a.Device(), fillProgram, "quiver_fill", a.NBytes()+turn, 16,
		launch.InOut(a.buf, start), a.NBytes(), uint32(turn), low, high)
}

var fillProgram = launch.Program("copy/fill", map[string]cudabuf.HostKernel{"quiver_fill": func(l *cudabuf.HostLaunch) {
	n := l.Int64(1)
	launch.MustAlignAt(l, 0, -int64(l.Uint32(2)), 16)
	pattern := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, l.Uint64(3)), l.Uint64(4))
	cpu.Fill(launch.Reached(l, 0, 0, n), n, pattern, int64(l.Uint32(2)))
}})
