// Decodes LZ4 blocks (lz4_Block_format.md). Where a sequence begins depends on all before it,
// but a reader that begins anywhere soon meets the right ones. These steps are for all items
// of a batch at once:
//
//	lz4_parts    reads each part of the input from a guess on, and then follows the parts of a
//	             segment, and corrects those that the one before does not lead to
//	lz4_link     follows the parts of an item, and finds out where pieces of the output begin
//	lz4_execute  writes the outputs that are one piece
//	lz4_mark     writes those of several, with marks for what a piece repeats of earlier ones
//	lz4_resolve  replaces the marks, piece by piece
//
// The sequences that the readers meet are bits, one for each byte of the input.

#include "compress/batch.cuh"
#include "compress/execute.cuh"

// The parts of a segment are read by a block of threads.
constexpr uint32_t part_bytes = 1 << 10, part_words = part_bytes / 32, segment_parts = 64;
constexpr uint32_t guess_bytes = 512;  // that a thread reads before its part
constexpr uint32_t most_extended = 64;  // a longer length ends a part, so that a warp reads it

// What belongs to an item: the numbers of its first segment and piece, and the position of its
// marks. That of the marks is negative if one piece is the whole output.
struct Place {
    int64_t marks;
    uint32_t segment, piece;
};

// A sequence at or before the start of a piece, and where its output begins.
struct Piece {
    uint32_t entry, out;
};

// Returns the item that has a segment, or a piece, of n items.
template <typename Number> __device__ __forceinline__ uint32_t find_item(const Place* places, uint32_t n, uint32_t at, Number number) {
    uint32_t low = 0;
    for (uint32_t high = n; high - low > 1;) {
        const uint32_t middle = low + (high - low) / 2;
        if (number(places[middle]) <= at) low = middle;
        else high = middle;
    }
    return low;
}

// The bytes of an input.
struct Input {
    const uint8_t* src;
    uint32_t size;

    __device__ __forceinline__ uint32_t operator[](uint32_t at) const { return __ldg(src + at); }
};

constexpr int32_t done = -1, long_length = -2;
constexpr uint32_t no_end = ~0u;

// Some sequences that follow each other.
struct Walk {
    uint32_t entry, exit;  // where they begin and end
    uint32_t bytes;        // of their output
    int32_t status;        // ok, an error, done after the last sequence, or long_length before a long one
};

// Reads a length's further bytes. Returns whether they are few, and do not exceed the input.
__device__ __forceinline__ bool extend(const Input& in, uint32_t& at, uint32_t& length) {
    for (uint32_t k = 0; k < most_extended && at < in.size; k++) {
        const uint32_t byte = in[at++];
        length += byte;
        if (byte < 255) return true;
    }
    return false;
}

// Reads the sequence at the exit of a walk, of any form.
__device__ void step(const Input& in, Walk& w) {
    uint32_t at = w.exit;
    const uint32_t token = in[at++];
    uint32_t literals = token >> 4, match = (token & 15) + 4;
    if (literals == 15 && !extend(in, at, literals)) {
        w.status = at < in.size ? long_length : truncated;
        return;
    }
    if (literals > in.size - at) {
        w.status = truncated;
        return;
    }
    at += literals;
    if (at == in.size) {
        w.bytes += literals, w.exit = at, w.status = done;
        return;
    }
    if (in.size - at < 2) {
        w.status = truncated;
        return;
    }
    at += 2;
    if (match == 19 && !extend(in, at, match)) {
        w.status = at < in.size ? long_length : truncated;
        return;
    }
    // After a match there is another sequence.
    if (at >= in.size) w.status = truncated;
    w.bytes += literals + match, w.exit = at;
}

// Writes the bits of a part in order.
struct Bits {
    uint32_t* words;
    uint32_t index = 0, word = 0;

    __device__ __forceinline__ void advance(uint32_t to) {
        if (to == index) return;
        words[index] = word;
        for (index++; index < to; index++) words[index] = 0;
        word = 0;
    }
    __device__ __forceinline__ void put(uint32_t at) {
        advance(at / 32);
        word |= 1u << at % 32;
    }
};

// Reads the bytes from `at` on that extend a length, with all threads of a warp. Returns the
// position after them, or size if they do not end.
__device__ uint32_t skip_extension(const Input& in, uint32_t at, uint32_t& length) {
    for (;;) {
        const uint32_t mine = at < in.size && lane() < in.size - at ? in[at + lane()] : 0;
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

// A sequence in the input.
struct Read {
    uint32_t literals, match;  // sizes in bytes
    uint32_t source, end;      // where its literals begin, and where it ends
    int32_t status;            // ok, an error, or done after the last one
};

// Reads a sequence of any length with all threads of a warp.
__device__ Read read_long(const Input& in, uint32_t at) {
    const uint32_t token = in[at++];
    Read r = {token >> 4, (token & 15) + 4, 0, in.size, truncated};
    if (r.literals == 15) at = skip_extension(in, at, r.literals);
    r.source = at;
    if (r.literals > in.size - at) return r;
    at += r.literals;
    if (at == in.size) {
        r.match = 0, r.status = done;
        return r;
    }
    if (in.size - at < 2) return r;
    at += 2;
    if (r.match == 19) at = skip_extension(in, at, r.match);
    if (r.match > 1u << 31) r.status = too_large;
    else if (at < in.size) r.status = ok, r.end = at;
    return r;
}

// What a lane reads at a position, as if a sequence began there.
struct Window {
    uint32_t source, literals, match;  // unless it is long
    uint32_t step;                     // to the end of the sequence from the start of the window
    bool is_long;                      // whether it is left to read_long: the last one and errors, too
};

__device__ __forceinline__ Window read_sequence(const Input& in, uint32_t position, uint32_t start) {
    // Few branches, since lanes would take all of them.
    const bool exists = position + 1 < in.size;
    uint32_t token = 0, literals = 0, match = 0;
    if (exists) token = in[position], literals = in[position + 1];
    const bool more_literals = token >> 4 == 15, more_match = (token & 15) == 15;
    Window w;
    w.literals = more_literals ? 15 + literals : token >> 4;
    w.source = position + 1 + more_literals;
    uint32_t end = w.source + w.literals + 2;
    if (more_match & end < in.size) match = in[end];
    w.match = (token & 15) + 4 + match;
    end += more_match;
    w.is_long = !exists | w.literals == 15 + 255 | w.match == 19 + 255 | end >= in.size;
    w.step = end - start;
    return w;
}

// Reads the sequence at the exit of a walk.
__device__ __forceinline__ void read(const Input& in, Walk& w) {
    const Window next = read_sequence(in, w.exit, w.exit);
    if (next.is_long)
        step(in, w);
    else
        w.bytes += next.literals + next.match, w.exit += next.step;
}

// Reads a sequence at each byte of a window of 32.
__device__ __forceinline__ Window read_window(const Input& in, uint32_t at) { return read_sequence(in, at + lane(), at); }

// Returns a bit for each lane whose sequence follows from that of the first lane, up to a
// limit of bytes or to one that is long, which is the last of them. next is where the one
// after them begins, unless the last one is long.
__device__ __forceinline__ uint32_t follow(const Window& w, uint32_t limit, uint32_t& last, uint32_t& next, bool& is_long) {
    const uint32_t longs = __ballot_sync(~0u, w.is_long);
    // What follows from each lane, and where the one after that begins. A sequence has at
    // least three bytes, so that four rounds are enough.
    uint32_t starts = 1u << lane();
    next = w.is_long ? warp_size : w.step;
#pragma unroll
    for (int round = 0; round < 4; round++) {
        const uint32_t other = __shfl_sync(~0u, starts, next % warp_size), after = __shfl_sync(~0u, next, next % warp_size);
        if (next < warp_size) starts |= other, next = after;
    }
    starts = __shfl_sync(~0u, starts, 0), next = __shfl_sync(~0u, next, 0);
    const uint32_t beyond = limit < warp_size ? starts & ~0u << limit : 0;
    if (beyond) starts ^= beyond, next = __ffs(beyond) - 1;
    last = 31 - __clz(starts);
    is_long = longs >> last & 1;
    return starts;
}

// Reads the sequences from `at` to the end of its part with a warp. words are the bits of the
// part, of which those before `at` are right.
__device__ Walk read_part(const Input& in, uint32_t at, uint32_t* words) {
    const uint32_t begin = at / part_bytes * part_bytes, end = min(begin + part_bytes, in.size);
    const int first = (at - begin) / 32;
    uint32_t word = lane() <= first ? words[lane()] : 0;
    if (lane() == first) word &= (1u << at % 32) - 1;
    Walk walk = {at, at, 0, ok};
    uint64_t bytes = 0;
    while (walk.status == ok && walk.exit < end) {
        const Window w = read_window(in, walk.exit);
        uint32_t last, next;
        bool is_long;
        const uint32_t starts = follow(w, min(end - walk.exit, (uint32_t)warp_size), last, next, is_long);
        const uint32_t by = walk.exit % 32;
        const int of = (walk.exit - begin) / 32;
        if (lane() == of) word |= starts << by;
        if (lane() == of + 1 && by > 0) word |= starts >> 32 - by;
        bytes += reduce_add(starts >> lane() & 1 && !w.is_long ? w.literals + w.match : 0);
        if (is_long) {
            const Read r = read_long(in, walk.exit + last);
            bytes += (uint64_t)r.literals + r.match;
            walk.exit = r.end, walk.status = r.status;
            if (r.status <= ok && bytes > 1u << 31) walk.status = too_large;
        } else {
            walk.exit += next;
        }
    }
    words[lane()] = word;
    walk.bytes = bytes;
    return walk;
}

// Follows the parts of an input from `at` up to a limit, which is the end of a part or of the
// input, with a warp. Walks that begin elsewhere are corrected. visit is called with a walk
// of each lane and whether the lane has one of those that follow, and returns a status. That
// of the last walk is returned.
template <typename Visit> __device__ __forceinline__ int32_t follow_parts(const Input& in, Walk* walks, uint32_t* bits, uint32_t& at, uint32_t limit, Visit visit) {
    int32_t status = ok;
    uint32_t loaded = ~0u;  // the number of the first part whose walks the lanes have
    Walk w = {0, 0, 0, ok};
    while (status == ok && at < limit) {
        const uint32_t part = at / part_bytes, from = part % warp_size;
        if (part - from != loaded) {
            loaded = part - from;
            w = {~0u, 0, 0, ok};
            if ((loaded + lane()) * (uint64_t)part_bytes < limit) w = walks[loaded + lane()];
        }
        // The lanes up to `to` have the right sequences.
        const uint32_t before = __shfl_up_sync(~0u, w.exit, 1);
        const int32_t status_before = __shfl_up_sync(~0u, w.status, 1);
        const bool follows = lane() == from ? w.entry == at : status_before == ok && before == w.entry;
        const uint32_t wrong = __ballot_sync(~0u, lane() >= from && !follows), to = wrong ? __ffs(wrong) - 1 : warp_size;
        if (to == from) {
            const Walk right = read_part(in, at, bits + part * (int64_t)part_words);
            if (lane() == from) walks[part] = w = right;
            continue;
        }
        at = __shfl_sync(~0u, w.exit, to - 1), status = __shfl_sync(~0u, w.status, to - 1);
        if (status == long_length) {
            const Walk rest = read_part(in, at, bits + at / part_bytes * (int64_t)part_words);
            if (lane() == to - 1) {
                w = {w.entry, rest.exit, w.bytes + rest.bytes, rest.status};
                walks[loaded + lane()] = w;
            }
            at = rest.exit, status = rest.status;
        }
        const int32_t visited = visit(w, lane() >= from && lane() < to);
        if (status <= ok && visited > ok) status = visited;
    }
    return status;
}

// Reads the parts of segments: a block of threads for each. In the first pass a thread reads
// each part from a guess on, and a warp corrects them. Later passes correct a segment by the
// end of the one before, which the pass before has found.
extern "C" __global__ __launch_bounds__(segment_parts) void quiver_lz4_parts(const uint8_t* src, const Item* items, const Place* places, Walk* walks, uint32_t* bits, const uint32_t* ends, uint32_t* next_ends, int64_t n, int64_t pass) {
    const uint32_t i = find_item(places, n, blockIdx.x, [](const Place& p) { return p.segment; });
    const Input in = {src + items[i].src, (uint32_t)items[i].src_size};
    walks += places[i].segment * (int64_t)segment_parts, bits += places[i].segment * (int64_t)(segment_parts * part_words);
    const uint32_t segment = blockIdx.x - places[i].segment, low = segment * segment_parts * part_bytes;
    if (pass == 0) {
        const uint32_t number = segment * segment_parts + threadIdx.x, begin = number * part_bytes;
        if (begin < in.size) {
            // What is read before the part makes the guess better.
            const uint32_t end = min(begin + part_bytes, in.size);
            Walk w = {begin, number > 0 ? begin - guess_bytes : begin, 0, ok};
            while (w.status == ok && w.exit < begin) read(in, w);
            const uint32_t entry = w.status == ok && w.exit < end ? w.exit : begin;
            w = {entry, entry, 0, ok};
            Bits found = {bits + number * (int64_t)part_words};
            while (w.status == ok && w.exit < end) {
                found.put(w.exit - begin);
                read(in, w);
            }
            found.advance(part_words);
            walks[number] = w;
        }
        __syncthreads();
    }
    if (threadIdx.x >= warp_size) return;
    const uint32_t entry = walks[segment * segment_parts].entry;
    uint32_t at = entry, end = no_end;
    if (pass > 0 && segment > 0 && ends[blockIdx.x - 1] != no_end) at = ends[blockIdx.x - 1];
    if (pass > 0 && at == entry) {
        end = ends[blockIdx.x];
    } else {
        const int32_t status = follow_parts(in, walks, bits, at, min(low + segment_parts * part_bytes, in.size), [](const Walk&, bool) { return ok; });
        if (status == ok) end = at;
    }
    if (lane() == 0) next_ends[blockIdx.x] = end;
}

// Returns where a piece of an item begins, whose output begins skew bytes after a multiple of
// 16: at such a multiple too, unless it is the first one.
__device__ __forceinline__ uint32_t piece_begin(uint32_t number, uint32_t skew, uint32_t piece_bytes) { return number == 0 ? 0 : number * piece_bytes - skew; }

// Follows the parts of items: a warp for each.
extern "C" __global__ void quiver_lz4_link(const uint8_t* dst, const uint8_t* src, const Item* items, const Place* places, Walk* walks, uint32_t* bits, Piece* pieces, Result* results, uint32_t piece_bytes, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const Item& item = items[i];
    const Input in = {src + item.src, (uint32_t)item.src_size};
    const uint32_t skew = (uintptr_t)(dst + item.dst) & 15, count = places[i + 1].piece - places[i].piece, most = min(item.dst_size, (int64_t)1 << 31);
    const int64_t first_part = places[i].segment * (int64_t)segment_parts;
    pieces += places[i].piece;
    uint32_t at = 0, out = 0;
    int32_t status = in.size == 0 ? (int32_t)corrupt : ok;
    if (status == ok) status = follow_parts(in, walks + first_part, bits + first_part * part_words, at, in.size, [&](const Walk& w, bool mine) -> int32_t {
        uint64_t sum = mine ? w.bytes : 0;
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint64_t other = __shfl_up_sync(~0u, sum, step);
            if (lane() >= step) sum += other;
        }
        const uint64_t total = out + __shfl_sync(~0u, sum, warp_size - 1);
        if (total > most) return too_large;
        // The pieces that begin in the output of the part.
        const uint32_t end = out + (uint32_t)sum, begin = end - w.bytes;
        if (mine)
            for (uint32_t k = begin == 0 ? 0 : (begin + skew + piece_bytes - 1) / piece_bytes; k < count && piece_begin(k, skew, piece_bytes) < end; k++)
                pieces[k] = {w.entry, begin};
        out = total;
        return ok;
    });
    if (lane() == 0) results[i] = {status == done ? (int64_t)out : 0, status == done ? ok : status, 0};
}

// Returns the sum of the values of the lanes up to this one.
__device__ __forceinline__ uint32_t sum_before(uint32_t value) {
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, value, step);
        if (lane() >= step) value += other;
    }
    return value;
}

// Executes the sequences of the lanes, whose output begins at out, as far as it lies between
// begin and end. The lanes after the last one have no bytes. Counts their output, which may
// not exceed size, and returns a status.
template <bool marks_> __device__ __forceinline__ int32_t execute(Executor<marks_>& executor, const Input& in, const Window& w, uint32_t& out, uint32_t begin, uint32_t end, uint32_t size) {
    uint32_t offset = 1;
    if (w.match > 0) {
        const uint8_t* p = in.src + w.source + w.literals;
        offset = __ldg(p) | __ldg(p + 1) << 8;
    }
    const uint32_t bytes = w.literals + w.match, sum = sum_before(bytes), total = __shfl_sync(~0u, sum, warp_size - 1);
    if (total > size - out) return too_large;
    LaneSequence s;
    s.end = out + sum, s.out = s.end - bytes, s.match = s.out + w.literals, s.source = w.source - s.out, s.offset = offset;
    if (__any_sync(~0u, w.match > 0 && (offset == 0 || offset > s.match))) return bad_offset;
    const uint32_t start = out;
    out += total;
    if (out > begin) executor.write(s, max(start, begin), min(out, end));
    return ok;
}

// Writes a piece with a warp. list is memory for it.
template <bool marks_> __device__ __forceinline__ void write_piece(uint16_t* list, uint8_t* dst, const uint8_t* src, const Item& item, uint32_t number, const Piece& piece, const uint32_t* bits, uint16_t* marks, uint32_t* marked, uint32_t piece_bytes, Result& result) {
    const Input in = {src + item.src, (uint32_t)item.src_size};
    dst += item.dst;
    const uint32_t skew = (uintptr_t)dst & 15, size = result.size;
    const uint32_t begin = marks_ ? piece_begin(number, skew, piece_bytes) : 0;
    if (begin >= size) return;
    const uint32_t end = marks_ ? min(piece_begin(number + 1, skew, piece_bytes), size) : size;
    Executor<marks_> executor = {dst, in.src, ~0u, begin, marks_ ? marks + skew : nullptr};
    uint32_t at = piece.entry, out = piece.out;
    while (out < end && at < in.size) {
        // The sequences of a part from `at` on become a list.
        const uint32_t part = at / part_bytes, within = at % part_bytes;
        uint32_t word = bits[part * (int64_t)part_words + lane()];
        if (lane() < within / 32) word = 0;
        if (lane() == within / 32) word &= ~0u << within % 32;
        const uint32_t sum = sum_before(__popc(word)), count = __shfl_sync(~0u, sum, warp_size - 1);
        if (count == 0) break;
        __syncwarp();
        for (uint32_t k = sum - __popc(word); word; word &= word - 1) list[k++] = 32 * lane() + __ffs(word) - 1;
        __syncwarp();
        for (uint32_t first = 0; first < count && out < end; first += warp_size) {
            const uint32_t n = min(count - first, (uint32_t)warp_size);
            const uint32_t position = part * part_bytes + list[first + min((uint32_t)lane(), n - 1)];
            Window w = read_sequence(in, position, position);
            uint32_t next = position + w.step;
            if (lane() >= n) w.literals = w.match = 0;
            for (uint32_t todo = __ballot_sync(~0u, w.is_long && lane() < n); todo; todo &= todo - 1) {
                const int k = __ffs(todo) - 1;
                const Read r = read_long(in, __shfl_sync(~0u, position, k));
                if (lane() == k) w.source = r.source, w.literals = r.literals, w.match = r.match, next = r.end;
            }
            at = __shfl_sync(~0u, next, n - 1);
            const int32_t status = execute(executor, in, w, out, begin, end, size);
            if (status != ok) {
                if (lane() == 0) result = {0, status, 0};
                return;
            }
        }
    }
    if (marks_ && lane() == 0) *marked = executor.marked;
}

// Writes the outputs of the items from first to end that are one piece: a warp for each piece
// of all of them.
extern "C" __global__ __launch_bounds__(warp_size, 32) void quiver_lz4_execute(uint8_t* dst, const uint8_t* src, const Item* items, const Place* places, const Piece* pieces, const uint32_t* bits, Result* results, int64_t first, int64_t end) {
    __shared__ uint16_t list[part_bytes / 3 + 3];
    const int64_t k = places[first].piece + (int64_t)blockIdx.x;
    const int64_t i = first + find_item(places + first, end - first, k, [](const Place& p) { return p.piece; });
    if (results[i].status != ok || places[i].marks >= 0) return;
    write_piece<false>(list, dst, src, items[i], 0, pieces[k], bits + places[i].segment * (int64_t)(segment_parts * part_words), nullptr, nullptr, 0, results[i]);
}

// The same for those of several pieces.
extern "C" __global__ __launch_bounds__(warp_size, 32) void quiver_lz4_mark(uint8_t* dst, const uint8_t* src, const Item* items, const Place* places, const Piece* pieces, const uint32_t* bits, uint16_t* marks, uint32_t* marked, Result* results, uint32_t piece_bytes, int64_t first, int64_t end) {
    __shared__ uint16_t list[part_bytes / 3 + 3];
    const int64_t k = places[first].piece + (int64_t)blockIdx.x;
    const int64_t i = first + find_item(places + first, end - first, k, [](const Place& p) { return p.piece; });
    if (results[i].status != ok || places[i].marks < 0) return;
    write_piece<true>(list, dst, src, items[i], k - places[i].piece, pieces[k], bits + places[i].segment * (int64_t)(segment_parts * part_words), marks + places[i].marks, marked + k, piece_bytes, results[i]);
}

constexpr uint32_t resolve_threads = 1024, round_bytes = 16 * resolve_threads;

// Replaces the marks of items that have several pieces, from the item `first` on: a block of
// threads for each.
extern "C" __global__ __launch_bounds__(resolve_threads) void quiver_lz4_resolve(uint8_t* dst, const Item* items, const Place* places, const uint16_t* marks, const uint32_t* marked, const Result* results, uint32_t piece_bytes, int64_t first) {
    const int64_t i = first + blockIdx.x;
    if (results[i].status != ok || places[i].marks < 0) return;
    dst += items[i].dst, marks += places[i].marks, marked += places[i].piece;
    const uint32_t skew = (uintptr_t)dst & 15, size = results[i].size, count = places[i + 1].piece - places[i].piece;
    marks += skew;
    // A piece takes some rounds, in which each thread has 16 bytes. Marks are loaded one round
    // ahead.
    const uint32_t rounds = (piece_bytes + round_bytes - 1) / round_bytes, within = min(piece_bytes, round_bytes);
    const auto load = [&](uint32_t round, uint4& low, uint4& high) {
        low = high = {0, 0, 0, 0};
        const uint32_t k = round / rounds;
        if (k >= count || !marked[k]) return;
        const uint32_t p = piece_begin(k, skew, piece_bytes) + round % rounds * round_bytes + 16 * threadIdx.x;
        if (16 * threadIdx.x < within && p < size && size - p >= 16) low = *(const uint4*)(marks + p), high = *(const uint4*)(marks + p + 8);
    };
    uint4 low, high, next_low, next_high;
    load(rounds, low, high);
    for (uint32_t round = rounds; round < count * rounds; round++, low = next_low, high = next_high) {
        load(round + 1, next_low, next_high);
        const uint32_t k = round / rounds, begin = piece_begin(k, skew, piece_bytes);
        if (begin >= size) return;
        if (!marked[k]) continue;
        const uint8_t* const from = dst + begin;
        const uint32_t p = begin + round % rounds * round_bytes + 16 * threadIdx.x;
        if (low.x | low.y | low.z | low.w | high.x | high.y | high.z | high.w) {
            uint4 value = *(const uint4*)(dst + p);
            const auto two = [&](uint32_t& word, uint32_t mark, int shift) {
                if (mark & 0xFFFF) word = word & ~(255u << shift) | *(from - (mark & 0xFFFF)) << shift;
                if (mark >> 16) word = word & ~(255u << shift + 8) | *(from - (mark >> 16)) << shift + 8;
            };
            two(value.x, low.x, 0), two(value.x, low.y, 16), two(value.y, low.z, 0), two(value.y, low.w, 16);
            two(value.z, high.x, 0), two(value.z, high.y, 16), two(value.w, high.z, 0), two(value.w, high.w, 16);
            *(uint4*)(dst + p) = value;
        } else if (16 * threadIdx.x < within && p < size && size - p < 16) {
            for (uint32_t q = p; q < size; q++)
                if (marks[q]) dst[q] = *(from - marks[q]);
        }
        if (round % rounds == rounds - 1) __syncthreads();
    }
}
