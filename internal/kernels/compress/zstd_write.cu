// Places the blocks of Zstandard data in the output, executes sequences and compares
// checksums.

#include "compress/zstd.cuh"
#include "compress/zstd_checksum.cuh"
#include "compress/execute.cuh"

// Finds out where each block of an item begins, its repeat offsets, and the windows of its
// output: a thread for each item. The blocks of item i are those from starts[i] to
// starts[i + 1].
extern "C" __global__ void quiver_zstd_place(const uint8_t* dst, const Item* items, const Counts* starts, Block* blocks, Window* windows, Progress* progress, Result* results, int64_t n) {
    const int64_t i = thread_index();
    if (i >= n) return;
    Status status = (Status)starts[i].status;
    int64_t out = 0, frame = 0, begin = 0;  // begin is where the next window does
    const int64_t skew = (uintptr_t)(dst + items[i].dst) & 15, first = starts[i].blocks, last = starts[i + 1].blocks;
    windows += starts[i].windows;
    uint32_t repeats[3], count = 0;
    for (int64_t k = first; k < last && status == ok; k++) {
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
        for (; status == ok && begin < out; begin = (int64_t)count * window_bytes - skew) windows[count++] = {(uint32_t)(k - first), 0};
    }
    progress[i] = {0, status == ok ? count : 0, (uint32_t)out, 0};
    results[i] = {status == ok ? out : 0, status, 0};
}

// Blocks of threads write the windows of items: blockIdx.x those of item writes[blockIdx.x].
extern "C" __global__ __launch_bounds__(threads, 3) void quiver_zstd_write(uint8_t* dst, const uint8_t* src, const int32_t* writes, const Item* items, const Counts* starts, const Block* blocks, const uint16_t* index, const Sequence* sequences, const uint8_t* literals, Window* windows, Progress* progress, Result* results) {
    extern __shared__ uint4 dynamic[];
    Shared& shared = *(Shared*)dynamic;
    const int64_t i = writes[blockIdx.x], end_block = starts[i + 1].blocks;
    dst += items[i].dst;
    windows += starts[i].windows;
    write_windows(shared, dst, windows, progress[i], [&](uint32_t window, uint32_t base, uint32_t begin, uint32_t end) {
        int64_t k = starts[i].blocks + windows[window].first;
        const Block& whole = blocks[k];
        if (whole.sequences == 1 && whole.out <= begin && whole.out + whole.size >= end && !whole.coded_literals()) {
            // Nothing but literals that have not been decoded.
            const uint8_t* from = src + whole.src + whole.literals_src;
            const uint32_t first = from[0];
            if (whole.same_literals())
                write_cells(dst + (int64_t)begin - (begin - base), begin - base, end - base, [&](uint32_t) { return first * 0x01010101u; }, [&](uint32_t) { return first; });
            else
                copy_bytes(dst + begin, from + (begin - whole.out), end - begin, threadIdx.x, threads);
            return false;
        }
        // The warps share each block, or take one each if there are many.
        const bool many = window + 1 < progress[i].windows && windows[window + 1].first - windows[window].first > 4 * threads / warp_size;
        bool bad = false;
        for (k += many ? threadIdx.x / warp_size : 0; k < end_block; k += many ? threads / warp_size : 1) {
            const Block& b = blocks[k];
            if (b.out >= end) break;
            if (b.size == 0) continue;
            Sequences s = {shared.cells, base, begin, end, literals + b.first_literal, b.same_literals(), sequences + b.first_sequence, 0, b.sequences, b.out, b.size, b.frame, {b.repeats[0], b.repeats[1], b.repeats[2]}};
            if (!b.coded_literals()) s.literals = src + b.src + b.literals_src;
            if (b.sequences > 1) s.first = index[k * index_size + (max(begin, b.out) - b.out) / index_step];
            bad |= s.read(many ? lane() : threadIdx.x, many ? warp_size : threads);
        }
        if (bad) results[i] = {0, bad_offset, 0};
        return true;
    });
}

// Writes the outputs of small items: a warp for each. list has their numbers.
extern "C" __global__ __launch_bounds__(warp_size, 32) void quiver_zstd_execute(uint8_t* dst, const uint8_t* src, const int32_t* list, const Item* items, const Counts* starts, const Block* blocks, const Sequence* sequences, const uint8_t* literals, Result* results) {
    const int64_t i = list[blockIdx.x], end_block = starts[i + 1].blocks;
    if (results[i].status != ok) return;
    Executor<false> executor = {dst + items[i].dst, nullptr, 0, 0, nullptr};
    for (int64_t k = starts[i].blocks; k < end_block; k++) {
        const Block& b = blocks[k];
        executor.literals = b.coded_literals() ? literals + b.first_literal : src + b.src + b.literals_src;
        executor.same = b.same_literals() ? 0 : ~0u;
        const uint32_t repeats[3] = {b.repeats[0], b.repeats[1], b.repeats[2]}, out = b.out, size = b.size, frame = b.frame, count = b.sequences;
        const Sequence* const from = sequences + b.first_sequence;
        for (uint32_t first = 0; first < count; first += warp_size) {
            const uint32_t mine = first + lane();
            Sequence q = {size, 0, 0, 0};
            if (mine < count) q = from[mine];
            uint32_t next = __shfl_down_sync(~0u, q.out, 1);
            if (lane() == warp_size - 1) next = mine + 1 < count ? from[mine + 1].out : size;
            LaneSequence s = {out + q.out, out + q.out + q.literals, out + next, q.source - (out + q.out), 1};
            if (s.end > s.match) s.offset = known_offset(q.offset, repeats);
            if (__any_sync(~0u, s.offset == 0 || s.end > s.match && s.offset > s.match - frame)) {
                if (lane() == 0) results[i] = {0, bad_offset, 0};
                return;
            }
            executor.write(s, __shfl_sync(~0u, s.out, 0), __shfl_sync(~0u, s.end, warp_size - 1));
        }
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
