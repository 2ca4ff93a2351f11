package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// BoxTileChoice returns the kernel that copies a nest without box tiles, and the run of box
// tiles that boxTileRules compare. ok is false if no rule can apply.
func BoxTileChoice(width int64, n layout.Nest, memory int64) (kernel Kernel, run float64, ok bool) {
	t, kernel, tiled := newTiles(width, 0, 0, n, memory, nil)
	if !tiled {
		_, kernel = newRows(width, n, nil)
	}
	newBoxTiles(width, 0, 0, n, BoxTileMemory(width*layout.Product(n.Shape), memory), func(bytes int64) bool {
		filled := t.filled(kernel, width)
		run, ok = float64(bytes)/filled/filled, true
		return true
	})
	return kernel, run, ok
}
