package dissociated

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// Place returns a batch like another one of any device, whose buffers lie in the
// window: it can then be sent as often as wanted without a copy. The room is free
// again after its last Release, here and at all clients. Place waits for room
// until the context ends.
func (w *Window) Place(ctx context.Context, batch arrow.RecordBatch) (placed arrow.RecordBatch, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("placing a record batch in a window: %w", err)
		}
	}()
	from, err := arrowipc.NewEncoder(batch.Schema())
	if err != nil {
		return nil, err
	}
	defer from.Release()
	to, err := arrowipc.NewDecoder(from.Schema(), w.dev)
	if err != nil {
		return nil, err
	}
	defer to.Release()
	messages, err := from.Encode(batch)
	if err != nil {
		return nil, err
	}
	defer releaseAll(messages)
	for _, m := range messages {
		if placed, err = w.placeMessage(ctx, m, to); err != nil {
			return nil, err
		}
	}
	return placed, nil // the batch's message is the last
}

func (w *Window) placeMessage(ctx context.Context, m *arrowipc.Message, to *arrowipc.Decoder) (arrow.RecordBatch, error) {
	parts, err := m.Parts()
	if err != nil {
		return nil, err
	}
	defer parts.Release()
	places, err := w.place(ctx, parts)
	if err != nil {
		return nil, err
	}
	there := make(arrowipc.Parts, 0, len(parts))
	defer func() { there.Release() }()
	for i, p := range places {
		b, err := w.part(Location{uint64(p.offset), uint64(parts[i].Buffer.Len())}, p.giveBack)
		if err != nil {
			for _, rest := range places[i:] {
				rest.giveBack()
			}
			return nil, err
		}
		there = append(there, arrowipc.Part{Offset: parts[i].Offset, Buffer: b})
	}
	return to.Decode(m.Metadata, there)
}
