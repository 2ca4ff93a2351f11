// Decodes LZ4 blocks (lz4_Block_format.md). Where a sequence begins depends on all before it,
// but a reader that begins anywhere soon meets the right ones. These steps are for all items
// of a batch at once:
//
//	lz4_parts    reads each part of the input as if a sequence began there, and then again
//	             from where the part before it ends, until both meet
//	lz4_link     follows the parts of an item, corrects what is still wrong, and finds out
//	             where pieces of the output begin
//	lz4_execute  writes the outputs that are one piece
//	lz4_mark     writes those of several, with marks for what a piece repeats of earlier ones
//	lz4_resolve  replaces the marks, piece by piece
//
// The sequences that the readers meet are bits, one for each byte of the input.

#include "compress/batch.cuh"
#include "compress/execute.cuh"

// The parts of a segment are read by a block of threads.
constexpr uint32_t part_bytes = 1 << 10, part_words = part_bytes / 32, segment_parts = 64;
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

// Reads the sequence at the exit.
__device__ __forceinline__ void step(const Input& in, Walk& w) {
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

// Writes the bits of a part in order, from a position of it on.
struct Bits {
    uint32_t* words;
    uint32_t index, word;
    uint32_t before;  // the word that is replaced

    __device__ __forceinline__ Bits(uint32_t* w, uint32_t at) : words(w), index(at / 32), word(0), before(w[at / 32]) {}
    __device__ __forceinline__ void advance(uint32_t to) {
        if (to == index) return;
        words[index] = word;
        for (index++; index < to; index++) words[index] = 0;
        word = 0;
        if (to < part_words) before = words[to];
    }
    __device__ __forceinline__ void put(uint32_t at) {
        advance(at / 32);
        word |= 1u << at % 32;
    }
    // Reports whether there was a bit before.
    __device__ __forceinline__ bool had(uint32_t at) {
        advance(at / 32);
        return before >> at % 32 & 1;
    }
    // Keeps the bits from `at` on.
    __device__ __forceinline__ void keep(uint32_t at) { words[index] = word | before & ~0u << at % 32; }
    __device__ __forceinline__ void clear_rest() { advance(part_words); }
};

// Reads a part from a position of it on, until the sequences are those of a guess.
__device__ __forceinline__ Walk correct(const Input& in, uint32_t begin, uint32_t entry, const Walk& guess, uint32_t* bits) {
    const uint32_t end = min(begin + part_bytes, in.size);
    Walk w = {entry, entry, 0, ok};
    Bits found(bits, entry - begin);
    while (w.status == ok && w.exit < end) {
        if (found.had(w.exit - begin) && w.exit >= guess.entry) {
            found.keep(w.exit - begin);
            Walk other = {guess.entry, guess.entry, 0, ok};
            while (other.status == ok && other.exit < w.exit) step(in, other);
            return {entry, guess.exit, w.bytes + guess.bytes - other.bytes, guess.status};
        }
        found.put(w.exit - begin);
        step(in, w);
    }
    found.clear_rest();
    return w;
}

// Reads the parts of segments: a block of threads for each, and a thread for each part. In
// the first pass, the first part of a segment is read from its first byte on. Later passes
// correct it by the ends of segments that the pass before has found.
extern "C" __global__ __launch_bounds__(segment_parts) void quiver_lz4_parts(const uint8_t* src, const Item* items, const Place* places, Walk* walks, uint32_t* bits, const uint32_t* ends, uint32_t* next_ends, int64_t n, int64_t pass) {
    __shared__ uint32_t exits[segment_parts], entries[segment_parts], left;
    const uint32_t i = find_item(places, n, blockIdx.x, [](const Place& p) { return p.segment; });
    const uint32_t segment = blockIdx.x - places[i].segment, number = segment * segment_parts + threadIdx.x, begin = number * part_bytes;
    const Input in = {src + items[i].src, (uint32_t)items[i].src_size};
    const bool exists = begin < in.size;
    const int64_t part = blockIdx.x * (int64_t)segment_parts + threadIdx.x;
    bits += part * part_words;
    Walk w = {begin, begin, 0, exists ? ok : (int32_t)truncated};
    uint32_t end = no_end;  // where the sequences leave the segment before
    bool changed = pass == 0;
    if (pass > 0) {
        if (segment > 0) end = ends[blockIdx.x - 1];
        if (exists) w = walks[part];
    } else {
        const uint32_t part_end = exists ? min(begin + part_bytes, in.size) : 0;
        Bits found(bits, 0);
        while (__any_sync(~0u, w.status == ok && w.exit < part_end)) {
            if (w.status == ok && w.exit < part_end) {
                found.put(w.exit - begin);
                step(in, w);
            }
            __syncwarp();
        }
        if (exists) found.clear_rest();
    }
    // A thread follows the parts. Each round is right for one more part at least.
    const uint32_t low = segment * segment_parts * part_bytes, high = min(low + segment_parts * part_bytes, in.size);
    for (;;) {
        exits[threadIdx.x] = w.status == ok ? w.exit : no_end;
        entries[threadIdx.x] = w.entry;
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t at = end == no_end ? w.entry : end;
            while (at < high) {
                const uint32_t k = (at - low) / part_bytes;
                entries[k] = at, at = exits[k];
            }
            left = at;
        }
        __syncthreads();
        const uint32_t entry = entries[threadIdx.x];
        const bool wrong = exists && entry != w.entry;
        if (wrong) w = correct(in, begin, entry, w, bits);
        changed |= wrong;
        if (!__syncthreads_or(wrong)) break;
    }
    if (exists && changed) walks[part] = w;
    if (threadIdx.x == 0) next_ends[blockIdx.x] = left;
}

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

// Returns where a piece of an item begins, whose output begins skew bytes after a multiple of
// 16: at such a multiple too, unless it is the first one.
__device__ __forceinline__ uint32_t piece_begin(uint32_t number, uint32_t skew, uint32_t piece_bytes) { return number == 0 ? 0 : number * piece_bytes - skew; }

// Notes for the pieces that begin from out to end where the part does that has them.
__device__ __forceinline__ void enter(Piece* pieces, uint32_t count, uint32_t skew, uint32_t piece_bytes, uint32_t entry, uint32_t out, uint32_t end) {
    for (uint32_t k = out == 0 ? 0 : (out + skew + piece_bytes - 1) / piece_bytes; k < count && piece_begin(k, skew, piece_bytes) < end; k++)
        pieces[k] = {entry, out};
}

// Follows the parts of items: a warp for each.
extern "C" __global__ void quiver_lz4_link(const uint8_t* dst, const uint8_t* src, const Item* items, const Place* places, Walk* walks, uint32_t* bits, Piece* pieces, Result* results, uint32_t piece_bytes, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const Item& item = items[i];
    const Input in = {src + item.src, (uint32_t)item.src_size};
    const uint32_t skew = (uintptr_t)(dst + item.dst) & 15, count = places[i + 1].piece - places[i].piece, most = min(item.dst_size, (int64_t)1 << 31);
    const int64_t first_part = places[i].segment * (int64_t)segment_parts;
    const uint32_t size = places[i].marks < 0 ? ~0u / 2 + 1 : piece_bytes;  // of a piece
    walks += first_part, bits += first_part * part_words, pieces += places[i].piece;
    uint32_t at = 0, out = 0;
    int32_t status = in.size == 0 ? (int32_t)corrupt : ok;
    uint32_t loaded = ~0u;  // the number of the first part whose walks the lanes have
    Walk w = {0, 0, 0, ok};
    while (status == ok) {
        const uint32_t part = at / part_bytes, from = part % warp_size;
        if (part - from != loaded) {
            loaded = part - from;
            const uint32_t mine = loaded + lane();
            w = {~0u, 0, 0, ok};
            if (mine * (uint64_t)part_bytes < in.size) w = walks[mine];
        }
        // The lanes up to `to` have the right sequences.
        const uint32_t before = __shfl_up_sync(~0u, w.exit, 1);
        const int32_t status_before = __shfl_up_sync(~0u, w.status, 1);
        const bool follows = lane() == from ? w.entry == at : status_before == ok && before == w.entry;
        const uint32_t wrong = __ballot_sync(~0u, lane() >= from && !follows), to = wrong ? __ffs(wrong) - 1 : warp_size;
        if (to == from) {
            Walk right = {0, 0, 0, ok};
            if (lane() == 0) right = correct(in, part * part_bytes, at, walks[part], bits + part * (int64_t)part_words);
            right = {at, __shfl_sync(~0u, right.exit, 0), __shfl_sync(~0u, right.bytes, 0), __shfl_sync(~0u, right.status, 0)};
            if (lane() == from) w = right;
            continue;
        }
        const bool mine = lane() >= from && lane() < to;
        uint64_t sum = mine ? w.bytes : 0;
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint64_t other = __shfl_up_sync(~0u, sum, step);
            if (lane() >= step) sum += other;
        }
        const uint64_t total = out + __shfl_sync(~0u, sum, warp_size - 1);
        at = __shfl_sync(~0u, w.exit, to - 1), status = __shfl_sync(~0u, w.status, to - 1);
        if (status > ok) break;
        if (total > most) {
            status = too_large;
            break;
        }
        if (mine) enter(pieces, count, skew, size, w.entry, out + (uint32_t)sum - w.bytes, out + (uint32_t)sum);
        out = total;
        if (status == long_length) {
            const Read r = read_long(in, at);
            status = r.status;
            if (status > ok) break;
            if (r.literals > most - out || r.match > most - out - r.literals) {
                status = too_large;
                break;
            }
            const uint32_t end = out + r.literals + r.match;
            if (lane() == 0) enter(pieces, count, skew, size, at, out, end);
            out = end, at = r.end;
            const uint32_t last = at / part_bytes;
            if (status == ok && last == loaded + to - 1) {
                // The rest of the part has not been read.
                Walk rest = {at, at, 0, ok};
                if (lane() == 0) {
                    const uint32_t begin = last * part_bytes, end = min(begin + part_bytes, in.size);
                    uint32_t* words = bits + last * (int64_t)part_words;
                    Bits found(words, at - begin);
                    found.word = found.before;
                    while (rest.status == ok && rest.exit < end) {
                        found.put(rest.exit - begin);
                        step(in, rest);
                    }
                    found.clear_rest();
                }
                rest = {at, __shfl_sync(~0u, rest.exit, 0), __shfl_sync(~0u, rest.bytes, 0), __shfl_sync(~0u, rest.status, 0)};
                if (lane() == to - 1) w = rest;
            }
        }
    }
    if (lane() == 0) results[i] = {status == done ? (int64_t)out : 0, status == done ? ok : status, 0};
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
        uint32_t sum = __popc(word);
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint32_t other = __shfl_up_sync(~0u, sum, step);
            if (lane() >= step) sum += other;
        }
        const uint32_t count = __shfl_sync(~0u, sum, warp_size - 1);
        if (count == 0) break;
        __syncwarp();
        for (uint32_t k = sum - __popc(word); word; word &= word - 1) list[k++] = 32 * lane() + __ffs(word) - 1;
        __syncwarp();
        for (uint32_t first = 0; first < count && out < end; first += warp_size) {
            const bool mine = first + lane() < count;
            const uint32_t position = part * part_bytes + list[min(first + lane(), count - 1)];
            Read r = {0, 0, 0, 0, ok};
            bool is_long = false;
            if (mine) {
                r.source = position;
                const uint32_t token = in[r.source++];
                r.literals = token >> 4, r.match = (token & 15) + 4;
                if (r.literals == 15) is_long = !extend(in, r.source, r.literals);
                if (r.literals > in.size - r.source) r.literals = in.size - r.source;
                r.end = r.source + r.literals;
                if (in.size - r.end < 2) {
                    r.match = 0, r.end = in.size;
                } else {
                    r.end += 2;
                    if (r.match == 19 && !is_long) is_long = !extend(in, r.end, r.match);
                }
            }
            for (uint32_t todo = __ballot_sync(~0u, is_long); todo; todo &= todo - 1) {
                const int k = __ffs(todo) - 1;
                const Read whole = read_long(in, __shfl_sync(~0u, position, k));
                if (lane() == k) r = whole;
            }
            uint32_t offset = 1;
            if (r.match > 0) {
                const uint8_t* p = in.src + r.source + r.literals;
                offset = __ldg(p) | __ldg(p + 1) << 8;
            }
            const uint32_t bytes = r.literals + r.match;
            uint32_t sum = bytes;
#pragma unroll
            for (int step = 1; step < warp_size; step *= 2) {
                const uint32_t other = __shfl_up_sync(~0u, sum, step);
                if (lane() >= step) sum += other;
            }
            LaneSequence s;
            s.end = out + sum, s.out = s.end - bytes, s.match = s.out + r.literals, s.source = r.source - s.out, s.offset = offset;
            if (__any_sync(~0u, r.match > 0 && (offset == 0 || offset > s.match))) {
                if (lane() == 0) result = {0, bad_offset, 0};
                return;
            }
            const uint32_t start = out;
            out += __shfl_sync(~0u, sum, warp_size - 1);
            at = __shfl_sync(~0u, r.end, min(count - first, (uint32_t)warp_size) - 1);
            if (out > begin) executor.write(s, max(start, begin), min(out, end));
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

constexpr int resolve_threads = 1024;  // a piece has at most 16 bytes for each

// Replaces the marks of items that have several pieces, from the item `first` on: a block of
// threads for each.
extern "C" __global__ __launch_bounds__(resolve_threads) void quiver_lz4_resolve(uint8_t* dst, const Item* items, const Place* places, const uint16_t* marks, const uint32_t* marked, const Result* results, uint32_t piece_bytes, int64_t first) {
    const int64_t i = first + blockIdx.x;
    if (results[i].status != ok || places[i].marks < 0) return;
    dst += items[i].dst, marks += places[i].marks, marked += places[i].piece;
    const uint32_t skew = (uintptr_t)dst & 15, size = results[i].size, count = places[i + 1].piece - places[i].piece;
    marks += skew;
    // Each thread has 16 bytes of a piece. Marks are loaded one piece ahead.
    const auto load = [&](uint32_t k, uint4& low, uint4& high) {
        low = high = {0, 0, 0, 0};
        if (k >= count || !marked[k]) return;
        const uint32_t p = piece_begin(k, skew, piece_bytes) + 16 * threadIdx.x;
        if (16 * threadIdx.x < piece_bytes && p < size && size - p >= 16) low = *(const uint4*)(marks + p), high = *(const uint4*)(marks + p + 8);
    };
    uint4 low, high, next_low, next_high;
    load(1, low, high);
    for (uint32_t k = 1; k < count; k++, low = next_low, high = next_high) {
        load(k + 1, next_low, next_high);
        const uint32_t begin = piece_begin(k, skew, piece_bytes);
        if (begin >= size) return;
        if (!marked[k]) continue;
        const uint8_t* const from = dst + begin;
        const uint32_t p = begin + 16 * threadIdx.x;
        if (low.x | low.y | low.z | low.w | high.x | high.y | high.z | high.w) {
            uint4 value = *(const uint4*)(dst + p);
            const auto two = [&](uint32_t& word, uint32_t mark, int shift) {
                if (mark & 0xFFFF) word = word & ~(255u << shift) | *(from - (mark & 0xFFFF)) << shift;
                if (mark >> 16) word = word & ~(255u << shift + 8) | *(from - (mark >> 16)) << shift + 8;
            };
            two(value.x, low.x, 0), two(value.x, low.y, 16), two(value.y, low.z, 0), two(value.y, low.w, 16);
            two(value.z, high.x, 0), two(value.z, high.y, 16), two(value.w, high.z, 0), two(value.w, high.w, 16);
            *(uint4*)(dst + p) = value;
        } else if (16 * threadIdx.x < piece_bytes && p < size && size - p < 16) {
            for (uint32_t q = p; q < size; q++)
                if (marks[q]) dst[q] = *(from - marks[q]);
        }
        __syncthreads();
    }
}
