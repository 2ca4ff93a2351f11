// Decodes the literals and the sequences of Zstandard blocks at the same time: a warp for the
// literals of eight blocks, or their sequences.

#include "compress/zstd_literals.cuh"
#include "compress/zstd_sequences.cuh"

// The first half of the grid decodes sequences, which take longer.
extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_blocks(const uint8_t* src, Block* blocks, uint8_t* literals, Sequence* sequences, uint16_t* index, int64_t n) {
    __shared__ union Shared {
        LiteralsShared literals;
        SequencesShared sequences;
        __device__ Shared() {}
    } shared;
    const uint32_t warps = gridDim.x / 2;
    if (blockIdx.x < warps)
        decode_sequences(shared.sequences, src, blocks, sequences, index, (int64_t)blockIdx.x * blocks_per_warp, n);
    else
        decode_literals(shared.literals, src, blocks, literals, (int64_t)(blockIdx.x - warps) * blocks_per_warp, n);
}
