// Decodes large LZ4 blocks (lz4_Block_format.md). Where a sequence begins depends on all before
// it. These steps find them, each for all items of a batch at once:
//
//	lz4_exits      finds for each byte of a part of the input where the sequences leave the
//	               part if one begins there, and so for segments, which are several parts
//	lz4_chain      follows the exits from segment to segment
//	lz4_enter      follows them from part to part
//	lz4_count      counts the sequences of each part
//	lz4_total      finds out where the output of each part begins
//	lz4_sequences  reads the sequences
//	lz4_execute    executes them, a window of the output at a time

#include "compress/windows.cuh"

constexpr uint32_t segment_bytes = 16 << 10, part_bytes = 2 << 10, parts = segment_bytes / part_bytes;

// How sequences leave a part: a number of bytes after its end, or a sequence whose length
// takes more than most_extended bytes and which begins at a byte of the segment, or with the
// end of the input.
constexpr uint32_t most_extended = 8, longest = 2 + 2 * most_extended + 15 + 255 * most_extended + 2;
constexpr uint32_t long_sequence = 1u << 15, no_exit = 0xFFFF;
using Exit = uint16_t;

struct Segment {
    int64_t src;           // position of the segment in the input of the batch
    int64_t item;
    int64_t exits;         // position of its exits, which are those of the item's bytes in order
    uint32_t begin, size;  // position in the input of the item, size in bytes
    uint32_t entry;        // from lz4_chain: position of its first sequence in the input of the item, or no_entry
    uint32_t reserved;
};

// A part of a segment. All segments have the same number of them.
struct Part {
    // From lz4_enter.
    uint32_t item, entry;       // entry is as in Segment
    uint32_t end;               // in the input of the item
    // From lz4_count.
    uint32_t sequences, bytes;  // their number, and the size of their output
    int32_t status;             // ok, an error, or `done` after the last sequence of a block
    // From lz4_total.
    uint32_t out, first;        // position in the output, and among the sequences of the item
};

constexpr uint32_t no_entry = ~0u;
constexpr int32_t done = -1;

constexpr int exit_threads = parts * warp_size;

struct ExitMemory {
    uint4 words[(segment_bytes + longest + 47) / 16];
    Exit exits[segment_bytes];
};

// Writes the exits from its part of each byte of a segment, and those from the segment of
// the bytes of its first part: a block of threads for each segment.
extern "C" __global__ __launch_bounds__(exit_threads) void quiver_lz4_exits(const uint8_t* src, const Item* items, const Segment* segments, Exit* exits, Exit* segment_exits) {
    extern __shared__ uint4 dynamic[];
    ExitMemory& m = *(ExitMemory*)dynamic;
    const Segment& s = segments[blockIdx.x];
    const uint8_t* const p = src + s.src;
    const uint32_t skew = (uintptr_t)p & 15, left = (uint32_t)items[s.item].src_size - s.begin;  // left in the input
    const uint32_t loaded = min(left, segment_bytes + longest);
    for (uint32_t i = threadIdx.x; 16 * i < loaded + skew; i += exit_threads) m.words[i] = *(const uint4*)(p - skew + 16 * i);
    __syncthreads();
    const uint8_t* const bytes = (const uint8_t*)m.words + skew;
    // Returns where the sequence at `at` ends, or the value of an exit with long_sequence.
    const auto next = [&](uint32_t at) -> uint32_t {
        if (at >= left) return no_exit;
        const uint32_t token = bytes[at], begin = at++;
        uint32_t literals = token >> 4, byte = 255, k = 0;
        if (literals == 15) {
            for (; byte == 255 && k < most_extended && at < left; k++) literals += byte = bytes[at++];
            if (byte == 255) return at < left ? long_sequence | begin : no_exit;
        }
        at += literals + 2;
        if (at > left) return no_exit;
        if ((token & 15) == 15) {
            byte = 255;
            for (k = 0; byte == 255 && k < most_extended && at < left; k++) byte = bytes[at++];
            if (byte == 255) return at < left ? long_sequence | begin : no_exit;
        }
        return at < left ? at : no_exit;
    };
    // Each warp takes a part from its end on. Sequences of 32 neighbours that begin another
    // one of them are followed together: there are at most 10 in a row.
    const uint32_t part = threadIdx.x / warp_size * part_bytes, part_end = part + part_bytes;
    constexpr uint32_t unresolved = 1u << 16;
    for (uint32_t first = min(part_end, (s.size + warp_size - 1) / warp_size * warp_size); first > part;) {
        first -= warp_size;
        uint32_t exit = next(first + lane());
        __syncwarp();
        if (exit < first + warp_size) exit = unresolved | exit - first;
        else if (exit < part_end) exit = m.exits[exit];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t other = __shfl_sync(~0u, exit, exit % warp_size);
            if (exit & unresolved) exit = other;
        }
        m.exits[first + lane()] = exit;
        __syncwarp();
    }
    __syncthreads();
    // Positions that lie after the part become numbers of bytes after its end.
    exits += s.exits;
    for (uint32_t at = threadIdx.x; at < s.size; at += exit_threads) {
        const uint32_t exit = m.exits[at];
        exits[at] = exit < long_sequence ? exit - (at / part_bytes + 1) * part_bytes : exit;
    }
    // The parts follow each other: no exit skips more than one and a half.
    segment_exits += blockIdx.x * (int64_t)part_bytes;
    for (uint32_t at = threadIdx.x; at < min(part_bytes, s.size); at += exit_threads) {
        uint32_t exit = m.exits[at];
        while (exit < segment_bytes) exit = m.exits[exit];
        segment_exits[at] = exit < long_sequence ? exit - segment_bytes : exit;
    }
}

// The bytes of an input.
struct Input {
    const uint8_t* src;
    uint32_t size;
};

// Reads the bytes from `at` on that extend a length, with all threads of a warp. Returns the
// position after them, or size if they do not end.
__device__ uint32_t skip_extension(const Input& in, uint32_t at, uint32_t& length) {
    for (;;) {
        const uint32_t mine = at + lane() < in.size ? in.src[at + lane()] : 0;
        const uint32_t ends = __ballot_sync(~0u, mine != 255);
        if (ends == 0) {
            length += warp_size * 255, at += warp_size;
            if (length > 1u << 31) return in.size;
            continue;
        }
        const int last = __ffs(ends) - 1;
        length += 255 * last + __shfl_sync(~0u, mine, last);
        return min(at + last + 1, in.size);
    }
}

// Returns where the long sequence at `at` ends, or in.size if it does not.
__device__ uint32_t skip_long(const Input& in, uint32_t at) {
    const uint32_t token = in.src[at++];
    uint32_t literals = token >> 4, match = token & 15;
    if (literals == 15) at = skip_extension(in, at, literals);
    if (literals >= in.size - at || in.size - at - literals < 2) return in.size;
    at += literals + 2;
    return match == 15 ? skip_extension(in, at, match) : at;
}

// Follows the sequences of an item from segment to segment: a warp for each. The segments of
// item i are those from starts[i] to starts[i + 1].
extern "C" __global__ void quiver_lz4_chain(const uint8_t* src, const Item* items, const uint32_t* starts, Segment* segments, const Exit* exits, const Exit* segment_exits, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const Input in = {src + items[i].src, (uint32_t)items[i].src_size};
    if (in.size > 0) exits += segments[starts[i]].exits;
    uint32_t at = 0, seen = ~0u;  // seen is the last segment that has an entry
    while (at < in.size) {
        const uint32_t segment = at / segment_bytes, within = at % segment_bytes;
        if (segment != seen && lane() == 0) segments[starts[i] + segment].entry = at;
        seen = segment;
        const bool first = within < part_bytes;
        const uint32_t exit = first ? segment_exits[(starts[i] + segment) * (int64_t)part_bytes + within] : exits[at];
        if (exit == no_exit) break;
        if (exit & long_sequence)
            at = skip_long(in, segment * segment_bytes + (exit & ~long_sequence));
        else
            at = (first ? segment + 1 : 0) * segment_bytes + (first ? 0 : (at / part_bytes + 1) * part_bytes) + exit;
    }
}

// Follows the sequences of a segment from part to part: a warp for each segment.
extern "C" __global__ void quiver_lz4_enter(const uint8_t* src, const Item* items, const Segment* segments, const Exit* exits, Part* all, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const Segment s = segments[i];
    all += i * parts;
    if (lane() < parts) all[lane()] = {(uint32_t)s.item, no_entry, min(s.begin + (lane() + 1) * part_bytes, s.begin + s.size), 0, 0, ok, 0, 0};
    __syncwarp();
    if (s.entry == no_entry) return;
    const Input in = {src + items[s.item].src, (uint32_t)items[s.item].src_size};
    uint32_t at = s.entry, seen = ~0u;
    while (at < s.begin + s.size) {
        const uint32_t part = (at - s.begin) / part_bytes;
        if (part != seen && lane() == 0) all[part].entry = at;
        seen = part;
        const uint32_t exit = exits[s.exits + (at - s.begin)];
        if (exit == no_exit) break;
        at = exit & long_sequence ? skip_long(in, s.begin + (exit & ~long_sequence)) : s.begin + (part + 1) * part_bytes + exit;
    }
}

// Reads the sequences of a part one after the other.
struct Parser {
    Input in;
    uint32_t at, out = 0;
    int32_t status = ok;

    __device__ __forceinline__ uint32_t extend(uint32_t length) {
        for (;;) {
            if (at >= in.size) return status = truncated, 0;
            const uint32_t byte = __ldg(in.src + at++);
            length += byte;
            if (length > 1u << 31) return status = too_large, 0;
            if (byte < 255) return length;
        }
    }

    // Reads one sequence. Its output ends at out. It is valid unless status is an error.
    __device__ __forceinline__ Sequence read() {
        Sequence s = {out, 0, 0, 0};
        const uint32_t token = __ldg(in.src + at++);
        s.literals = token >> 4;
        if (s.literals == 15) s.literals = extend(15);
        if (status != ok) return s;
        if (s.literals > in.size - at) return status = truncated, s;
        s.source = at;
        at += s.literals, out += s.literals;
        if (at == in.size) return status = done, s;
        if (in.size - at < 2) return status = truncated, s;
        s.offset = __ldg(in.src + at) | __ldg(in.src + at + 1) << 8;
        at += 2;
        uint32_t match = (token & 15) + 4;
        if (match == 19) match = extend(19);
        out += match;
        if (out > 1u << 31) status = too_large;
        return s;
    }
};

// Counts the sequences of each part and the bytes of their output: a thread for each.
extern "C" __global__ void quiver_lz4_count(const uint8_t* src, const Item* items, Part* all, int64_t n) {
    const int64_t i = thread_index();
    Parser parser = {};
    uint32_t count = 0, end = 0;
    int64_t most = 0;
    if (i < n && all[i].entry != no_entry) {
        const Item& item = items[all[i].item];
        parser = {{src + item.src, (uint32_t)item.src_size}, all[i].entry};
        end = all[i].end, most = item.dst_size;
    }
    while (__any_sync(~0u, parser.status == ok && parser.at < end)) {
        if (parser.status == ok && parser.at < end) parser.read(), count++;
        __syncwarp();
    }
    if (count == 0) return;
    // After a match there is another sequence.
    if (parser.status == ok && parser.at >= parser.in.size) parser.status = truncated;
    if (parser.out > most && parser.status <= ok) parser.status = too_large;
    all[i].sequences = count, all[i].bytes = parser.out, all[i].status = parser.status;
}

// Finds out where the output and the sequences of each part begin: a warp for each item.
// counts[i] is the number of the item's sequences, 0 if it has an error.
extern "C" __global__ void quiver_lz4_total(const uint8_t* dst, const Item* items, const uint32_t* starts, Part* all, uint32_t* counts, Progress* progress, Result* results, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    uint64_t out = 0;
    uint32_t count = 0;
    int32_t status = ok;
    const int64_t end = (int64_t)starts[i + 1] * parts;
    for (int64_t first = (int64_t)starts[i] * parts; first < end && status == ok; first += warp_size) {
        const int64_t k = first + lane();
        const bool mine = k < end && all[k].entry != no_entry;
        const uint32_t bytes = mine ? all[k].bytes : 0, sequences = mine ? all[k].sequences : 0;
        const int32_t state = mine ? all[k].status : ok;
        // Each part has at most 2^31 bytes or an error, so their sum needs 64 bits.
        uint64_t bytes_before = bytes;
        uint32_t sequences_before = sequences;
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint64_t other = __shfl_up_sync(~0u, bytes_before, step);
            const uint32_t others = __shfl_up_sync(~0u, sequences_before, step);
            if (lane() >= step) bytes_before += other, sequences_before += others;
        }
        const bool exceeds = out + bytes_before > (uint64_t)items[i].dst_size;
        if (mine) all[k].out = out + bytes_before - bytes, all[k].first = count + sequences_before - sequences;
        const uint32_t stops = __ballot_sync(~0u, state != ok || exceeds);
        if (stops) {
            const int stop = __ffs(stops) - 1;
            status = __shfl_sync(~0u, exceeds && state <= ok ? (int32_t)too_large : state, stop);
        }
        out += __shfl_sync(~0u, bytes_before, warp_size - 1), count += __shfl_sync(~0u, sequences_before, warp_size - 1);
    }
    // An input ends with literals.
    if (status == ok) status = items[i].src_size == 0 ? corrupt : truncated;
    if (status == done) status = ok;
    if (lane() == 0) {
        const uint64_t skew = (uintptr_t)(dst + items[i].dst) & 15;
        counts[i] = status == ok ? count : 0;
        progress[i] = {0, status == ok && out > 0 ? (uint32_t)((out + skew + window_bytes - 1) / window_bytes) : 0, (uint32_t)out, 0};
        results[i] = {status == ok ? (int64_t)out : 0, status, 0};
    }
}

// Writes the sequences of each part, and with which of them windows begin: a thread for
// each. first_sequence[i] and first_window[i] are the positions of those of item i.
extern "C" __global__ void quiver_lz4_sequences(const uint8_t* dst, const uint8_t* src, const Item* items, const Part* all, const Result* results, const int64_t* first_sequence, const int64_t* first_window, Sequence* sequences, Window* windows, int64_t n) {
    const int64_t i = thread_index();
    Part p = {};
    Parser parser = {};
    int64_t window = 0, next = 0;  // the first window that begins in this part, and where
    uint32_t skew = 0;
    if (i < n && all[i].entry != no_entry && results[all[i].item].status == ok) {
        p = all[i];
        const Item& item = items[p.item];
        parser = {{src + item.src, (uint32_t)item.src_size}, p.entry, p.out};
        skew = (uintptr_t)(dst + item.dst) & 15;
        sequences += first_sequence[p.item] + p.first, windows += first_window[p.item];
        if (p.out > 0) window = (p.out + (int64_t)skew + window_bytes - 1) / window_bytes, next = window * window_bytes - skew;
    }
    for (uint32_t k = 0; __any_sync(~0u, k < p.sequences); k++) {
        if (k < p.sequences) {
            sequences[k] = parser.read();
            for (; next < parser.out; next = ++window * window_bytes - skew) windows[window] = {p.first + k, 0};
        }
        __syncwarp();
    }
}

// Blocks of threads write the windows of items: blockIdx.x those of item writes[blockIdx.x].
extern "C" __global__ __launch_bounds__(threads, 3) void quiver_lz4_execute(uint8_t* dst, const uint8_t* src, const int32_t* writes, const Item* items, const int64_t* first_sequence, const int64_t* first_window, const uint32_t* counts, const Sequence* sequences, Window* windows, Progress* progress, Result* results) {
    extern __shared__ uint4 dynamic[];
    Shared& shared = *(Shared*)dynamic;
    const int64_t i = writes[blockIdx.x];
    windows += first_window[i];
    write_windows(shared, dst + items[i].dst, windows, progress[i], [&](uint32_t window, uint32_t base, uint32_t begin, uint32_t end) {
        const Sequences s = {shared.cells, base, begin, end, src + items[i].src, false, sequences + first_sequence[i], windows[window].first, counts[i], 0, progress[i].size, 0, {0, 0, 0}};
        if (s.read(threadIdx.x, threads)) results[i] = {0, bad_offset, 0};
        return true;
    });
}
