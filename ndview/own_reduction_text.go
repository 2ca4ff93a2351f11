package ndview

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// text is the source for a form of operands.
func (k *ReductionKernel) text(outer, inner layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	out, _ := cType(k.source.Out)
	arrays, outerLoops, innerLoops := len(sizes), len(outer.Shape), len(inner.Shape)
	s.WriteString(prelude + k.source.Preamble + "\n")
	writeIndex(&s, small)
	fmt.Fprintf(&s, "typedef %s quiver_out;\ntypedef %s quiver_acc;\n", out, computed(k.source.Out))
	fmt.Fprintf(&s, "struct quiver_walk { long long results, each, parts, per, kept[%d], kept_stride[%d][%d], extent[%d], stride[%d][%d]; };\n",
		outerLoops, arrays+1, outerLoops, innerLoops, arrays, innerLoops)
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_reduce(quiver_acc a, quiver_acc b) { return (%s); }\n", given("Reduce", k.source.Reduce))
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_neutral() { return (%s); }\n", given("Neutral", k.source.Neutral))
	s.WriteString(blockReduce)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%squiver_acc *quiver_partials, const quiver_walk quiver_w) {\n", ownKernel, parameterList(k.args))
	writeTypes(&s, k.args)
	s.WriteString(`	for (quiver_index quiver_b = blockIdx.x; quiver_b < quiver_w.results * quiver_w.parts; quiver_b += gridDim.x) {
		const quiver_index quiver_o = quiver_b / (quiver_index)quiver_w.parts;
		const quiver_index quiver_first = (quiver_b - quiver_o * quiver_w.parts) * quiver_w.per;
		const quiver_index quiver_last = quiver_first + quiver_w.per < quiver_w.each ? quiver_first + quiver_w.per : quiver_w.each;
`)
	withoutOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[1:]}
	writePlaces(&s, "quiver_o", "quiver_w.kept", "(quiver_w.kept_stride + 1)", withoutOut, sizes)
	fmt.Fprintf(&s, "\t\tquiver_bytes quiver_row[%d];\n\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_row[quiver_a] = quiver_d[quiver_a];\n", arrays, arrays)
	s.WriteString("\t\tquiver_acc quiver_sum = quiver_neutral();\n")
	s.WriteString("\t\tfor (quiver_index quiver_i = quiver_first + threadIdx.x; quiver_i < quiver_last; quiver_i += blockDim.x) {\n")
	writePlaces(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", inner, sizes)
	fmt.Fprintf(&s, "\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_d[quiver_a] += quiver_row[quiver_a];\n", arrays)
	writeLoads(&s, k.args)
	fmt.Fprintf(&s, `		quiver_sum = quiver_reduce(quiver_sum, (%s));
		}
		quiver_sum = quiver_block(quiver_sum);
		if (threadIdx.x == 0) quiver_partials[quiver_b] = quiver_sum;
	}
}
`, given("Map", k.source.Map))
	fmt.Fprintf(&s, `extern "C" __global__ void %s_rest(const quiver_acc *quiver_partials, quiver_out *quiver_p, const quiver_walk quiver_w) {
	for (quiver_index quiver_o = blockIdx.x; quiver_o < quiver_w.results; quiver_o += gridDim.x) {
		quiver_acc quiver_sum = quiver_neutral();
		for (quiver_index quiver_i = threadIdx.x; quiver_i < quiver_w.parts; quiver_i += blockDim.x) quiver_sum = quiver_reduce(quiver_sum, quiver_partials[quiver_o * quiver_w.parts + quiver_i]);
		quiver_sum = quiver_block(quiver_sum);
`, ownKernel)
	onlyOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[:1]}
	writePlaces(&s, "quiver_o", "quiver_w.kept", "quiver_w.kept_stride", onlyOut, []int64{k.source.Out.Size()})
	s.WriteString("\t\tif (threadIdx.x == 0) *(quiver_out *)((char *)quiver_p + quiver_d[0]) = quiver_sum;\n\t}\n}\n")
	return s.String()
}

// blockReduce reduces what the threads of a block have, for its first thread.
var blockReduce = fmt.Sprintf(`static __device__ quiver_acc quiver_block(quiver_acc quiver_mine) {
	__shared__ __align__(16) unsigned char quiver_memory[%d * sizeof(quiver_acc)];
	quiver_acc *quiver_all = (quiver_acc *)quiver_memory;
	__syncthreads();
	quiver_all[threadIdx.x] = quiver_mine;
	__syncthreads();
	for (unsigned quiver_half_way = blockDim.x / 2; quiver_half_way > 0; quiver_half_way /= 2) {
		if (threadIdx.x < quiver_half_way) quiver_all[threadIdx.x] = quiver_reduce(quiver_all[threadIdx.x], quiver_all[threadIdx.x + quiver_half_way]);
		__syncthreads();
	}
	return quiver_all[0];
}
`, launch.Threads)
