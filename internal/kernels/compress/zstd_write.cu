// Places the blocks of Zstandard data in the output, executes sequences and compares
// checksums.

#include "compress/zstd.cuh"
#include "compress/zstd_checksum.cuh"

// Finds out where each block of an item begins, and its repeat offsets: a thread for each
// item. The blocks of item i are those from starts[i] to starts[i + 1].
extern "C" __global__ void quiver_zstd_place(const Item* items, const Counts* starts, Block* blocks, Result* results, int64_t n) {
    const int64_t i = thread_index();
    if (i >= n) return;
    Status status = (Status)starts[i].status;
    int64_t out = 0, frame = 0;
    uint32_t repeats[3];
    for (int64_t k = starts[i].blocks; k < starts[i + 1].blocks && status == ok; k++) {
        Block& b = blocks[k];
        if (b.status != ok) status = (Status)b.status;
        if (b.frame_begins) repeats[0] = 1, repeats[1] = 4, repeats[2] = 8, frame = out;
        b.out = out, b.frame = frame;
        uint32_t after[3];
        for (int r = 0; r < 3; r++) {
            after[r] = known_offset(b.repeats[r], repeats);
            b.repeats[r] = repeats[r];
        }
        for (int r = 0; r < 3; r++) repeats[r] = after[r];
        out += b.size;
        if (out > items[i].dst_size) status = too_large;
        if (b.frame_ends && b.content_size >= 0 && out - frame != b.content_size) status = corrupt;
    }
    results[i] = {status == ok ? out : 0, status, 0};
}

// Gives the sequences of each block their places in the output and the literals of the
// item, and their offsets: a block of threads for each.
extern "C" __global__ void quiver_zstd_resolve(const Counts* starts, const Block* blocks, Sequence* sequences, Result* results) {
    const Block& b = blocks[blockIdx.x];
    if (results[b.item].status != ok) return;
    const uint32_t repeats[3] = {b.repeats[0], b.repeats[1], b.repeats[2]}, source = b.first_literal - starts[b.item].literals;
    bool bad = false;
    for (uint32_t k = threadIdx.x; k < b.sequences; k += blockDim.x) {
        Sequence s = sequences[b.first_sequence + k];
        s.out += b.out, s.source += source;
        if (k + 1 < b.sequences) {
            s.offset = known_offset(s.offset, repeats);
            bad |= s.offset == 0 || s.offset > s.out + s.literals - b.frame;
        }
        sequences[b.first_sequence + k] = s;
    }
    if (bad) results[b.item] = {0, bad_offset, 0};
}

constexpr int writers = 512, loads = 4;
using Part = Window<4096, 512>;

// Puts the sequences of an item into windows. Each thread has loaded some ahead.
struct Reader {
    const Sequence *next, *end;
    uint32_t size;  // of the output
    Sequence ahead[loads];

    __device__ __forceinline__ void load() {
#pragma unroll
        for (int k = 0; k < loads; k++)
            if (end - next > k * warp_size + lane()) ahead[k] = next[k * warp_size + lane()];
    }

    __device__ __forceinline__ void fill(Part* window, const Part* previous, const uint8_t* dst) {
        WindowWriter<Part> to;
        to.open(window, previous);
        uint32_t out = size;  // where the output of the window's sequences ends
        for (bool more = true; more && next < end && to.free() > 0;) {
            const int left = end - next < loads * warp_size ? end - next : loads * warp_size;
            int taken = 0;
#pragma unroll
            for (int k = 0; k < loads; k++) {
                const int n = min(min(warp_size, to.free()), left - taken);
                const unsigned mine = __ballot_sync(~0u, lane() < n && ahead[k].out < to.limit);
                if (!more || mine == 0) {
                    more = more && n <= 0;
                    continue;
                }
                to.add(ahead[k], mine & __ballot_sync(~0u, ahead[k].offset != empty_sequence));
                taken += __popc(mine);
                more = mine == ~0u;
            }
            next += taken;
            load();
        }
        if (next < end) out = next->out;
        to.close(out, next == end, dst);
    }
};

extern "C" __global__ __launch_bounds__(warp_size + writers) void quiver_zstd_write(uint8_t* dst, const Item* items, const Counts* starts, const Sequence* sequences, const uint8_t* literals, const Result* results) {
    __shared__ Part windows[2];
    __shared__ Bytes<Part> bytes;
    const int64_t i = blockIdx.x;
    if (results[i].status != ok || results[i].size == 0) return;
    dst += items[i].dst, literals += starts[i].literals;
    const bool reads = threadIdx.x < warp_size;
    Reader reader = {sequences + starts[i].sequences, sequences + starts[i + 1].sequences, (uint32_t)results[i].size};
    if (reads) {
        reader.load();
        reader.fill(&windows[0], nullptr, dst);
    }
    __syncthreads();
    for (int now = 0;; now ^= 1) {
        const bool last = windows[now].last;
        if (!reads)
            write_window<writers>(windows[now], bytes, dst, literals, threadIdx.x - warp_size);
        else if (!last)
            reader.fill(&windows[now ^ 1], &windows[now], dst);
        __syncthreads();
        if (last) break;
    }
}

// Compares the checksum of each frame of an item that has one (XXH64): a warp for each
// item, four threads of which hash.
extern "C" __global__ void quiver_zstd_checksum(const uint8_t* dst, const Item* items, const Counts* starts, const Block* blocks, Result* results, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n || results[i].status != ok) return;
    dst += items[i].dst;
    const int64_t end = starts[i + 1].blocks;
    bool bad = false;
    for (int64_t k = starts[i].blocks; k < end; k++) {
        const Block& b = blocks[k];
        if (!b.frame_ends || !b.has_checksum) continue;
        bad |= xxh64(dst + b.frame, b.out + b.size - b.frame) != b.checksum;
    }
    if (bad && lane() == 0) results[i].status = bad_checksum, results[i].size = 0;
}
