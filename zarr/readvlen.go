package zarr

import (
	"context"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// readVLen decodes the chunks and then packs their strings in the array's
// order.
func (a *Array) readVLen(ctx context.Context, box grid.Box, jobs int) (element.Values, error) {
	headers, err := grid.Bytes(box.Extent, 24) // of slices
	if err == nil {
		err = arrowbuf.CheckRoom(headers)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Repeat([][]byte{a.chain.Fill()}, int(grid.Size(box.Extent)))
	err = each(ctx, jobs, box.Indices(a.chunkShape), func(ctx context.Context, index []int64) error {
		s := a.scratch()
		defer s.Release()
		return a.pieces(ctx, index, box, func(p piece) error {
			if p.enc == nil {
				return nil
			}
			v, err := p.chain.DecodeVLen(s, p.enc)
			if err != nil {
				return err
			}
			part, _ := p.box.Intersect(box)
			grid.Copy(all, box.Extent, part.From(box.At).At, v.Elements(), p.box.Extent, part.From(p.box.At).At, part.Extent, 1)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return element.Strings(all, box.Extent...)
}
