package dissociated

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// decode makes a batch of metadata and its body; of a dictionary nil.
func (r *receiver) decode(m Metadata) (arrow.RecordBatch, error) {
	info, err := arrowipc.Inspect(m.Header)
	if err != nil {
		return nil, err
	}
	if info.Type != ipc.MessageRecordBatch && info.Type != ipc.MessageDictionaryBatch {
		return nil, fmt.Errorf("%w: a message of type %v, expected a record batch or a dictionary", ErrProtocol, info.Type)
	}
	one, err := r.inbox.nextBody()
	if err != nil {
		return nil, err
	}
	defer one.buffer.Release()
	if one.kind == Packed {
		if one.buffer.Len() != info.BodyLength {
			return nil, fmt.Errorf("%w: a body of %d bytes, the metadata says %d", ErrProtocol, one.buffer.Len(), info.BodyLength)
		}
		return r.decoder.Decode(m.Header, one.buffer)
	}
	bytes, _ := arrowbuf.HostBytes(one.buffer)
	parts, err := r.locate(bytes, info)
	defer parts.Release()
	if err != nil {
		return nil, err
	}
	return r.decoder.Decode(m.Header, parts)
}

// locate opens what a located body names, also where it fails midway.
func (r *receiver) locate(message []byte, info arrowipc.Info) (arrowipc.Parts, error) {
	locations, err := ParseLocations(message)
	if err != nil {
		return nil, err
	}
	if len(locations) != len(info.Buffers) {
		return nil, fmt.Errorf("%w: %d locations, the metadata has %d buffers", ErrProtocol, len(locations), len(info.Buffers))
	}
	parts := make(arrowipc.Parts, 0, len(locations))
	for i, l := range locations {
		extent := info.Buffers[i]
		if l.Length != uint64(extent.Length) {
			return parts, fmt.Errorf("%w: buffer %d of %d bytes, the metadata says %d", ErrProtocol, i, l.Length, extent.Length)
		}
		release := r.freeing.hold(l.Address)
		if l.Length == 0 {
			release()
			continue
		}
		b, err := r.remote.at(l, release)
		if err != nil {
			release()
			return parts, fmt.Errorf("buffer %d: %w", i, err)
		}
		parts = append(parts, arrowipc.Part{Offset: extent.Offset, Buffer: b})
	}
	// Parts are in the order of the body, buffers need not be.
	slices.SortStableFunc(parts, func(a, b arrowipc.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	return parts, nil
}
