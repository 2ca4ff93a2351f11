package stridedcopy

import "fmt"

// Kernel is the name of a kernel that copies. That of units of WIDTH bytes is the
// [Kernel.Function] of an image, which is compiled from kernels/IMAGE.cu.
type Kernel string

const (
	kernelTiles     Kernel = "tiles"
	kernelSectors   Kernel = "sectors"
	kernelSlim      Kernel = "slim"
	kernelMatrices  Kernel = "matrices"
	kernelWords     Kernel = "words"
	kernelRuns      Kernel = "runs"
	kernelShortRuns Kernel = "shortruns"
	kernelLines     Kernel = "lines"
	kernelOddLines  Kernel = "oddlines"
	kernelBricks    Kernel = "bricks"
	kernelRows      Kernel = "rows"
	kernelUnits     Kernel = "units"
	kernelSpans     Kernel = "spans"
	kernelPicks     Kernel = "picks"
	kernelChains    Kernel = "chains"
)

// weaveOf and unweaveOf are the kernels of so many planes.
func weaveOf(planes int64) Kernel   { return Kernel(fmt.Sprintf("weave%d", planes)) }
func unweaveOf(planes int64) Kernel { return Kernel(fmt.Sprintf("unweave%d", planes)) }

// Images are the kernels of each image.
var Images = map[string][]Kernel{
	"weave":    weaves(),
	"tiles":    {kernelTiles, kernelSectors},
	"slim":     {kernelSlim},
	"matrices": {kernelMatrices},
	"words":    {kernelWords},
	"runs":     {kernelRuns, kernelShortRuns, kernelLines},
	"odd":      {kernelOddLines},
	"bricks":   {kernelBricks},
	"rows":     {kernelRows, kernelUnits, kernelSpans, kernelPicks, kernelChains},
}

func weaves() (kernels []Kernel) {
	for planes := int64(2); planes <= mostPlanes; planes++ {
		kernels = append(kernels, weaveOf(planes))
		if planes%8 != 0 { // see NewWeave
			kernels = append(kernels, unweaveOf(planes))
		}
	}
	return kernels
}

// Function is the kernel of units of so many bytes.
func (k Kernel) Function(width int64) string { return fmt.Sprintf("quiver_%s_%d", k, width) }

// Image is the image that has a kernel.
func (k Kernel) Image() string { return imageOf[k] }

var imageOf = func() map[Kernel]string {
	images := map[Kernel]string{}
	for image, kernels := range Images {
		for _, k := range kernels {
			images[k] = image
		}
	}
	return images
}()
