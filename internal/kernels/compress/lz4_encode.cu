// Encodes LZ4 blocks (lz4_Block_format.md). The host divides each input into pieces. These
// steps are each for all pieces or inputs at once: find the matches of the pieces, find
// out where the sequences of each piece go, and write them. Literals after the last match
// of a piece belong to the first sequence of a later piece, or to the last sequence, which
// has no match.

#include "compress/matches.cuh"

struct SourcePiece {
    int64_t src;       // position of its bytes
    int64_t scratch;   // position of its sequences in the scratch memory: size / 5 of them
    uint32_t size;     // in bytes
    uint32_t matched;  // the first bytes of it, where matches may be
    uint32_t item;     // counted from the first one of the launch
    uint32_t reserved;
};

struct EncodedSequence {
    uint16_t literals, match, offset, reserved;
};

struct EncodedPiece {
    // From quiver_lz4_matches.
    uint32_t sequences;  // their number
    uint32_t first;      // literals of the first one
    uint32_t rest;       // bytes of all sequences, without the token, the length and the literals of the first one
    uint32_t tail;       // literals after the last match
    // From quiver_lz4_place.
    uint32_t out;        // position of the first sequence in the output
    uint32_t carried;    // literals of it that are in earlier pieces
    uint32_t tail_out;   // position of the tail in the output
    uint32_t last_out, last_literals;  // of the last piece of an item: the last sequence of the output
};

// Returns the number of bytes that extend a length in a token.
__device__ __forceinline__ uint32_t extension(uint32_t length) { return length < 15 ? 0 : (length - 15) / 255 + 1; }

// Writes the sequences of a piece. Literals stay where they are.
struct PieceWriter {
    EncodedSequence* list;
    uint32_t count = 0;
    uint32_t first = 0, rest = 0;  // those of EncodedPiece: their sums over the threads

    __device__ __forceinline__ void matches(unsigned threads, const Match& m) {
        const uint32_t index = count + __popc(threads & ((1u << lane()) - 1));
        if (threads >> lane() & 1) {
            list[index] = {(uint16_t)m.literals, (uint16_t)m.length, (uint16_t)m.offset, 0};
            if (index == 0)
                first = m.literals;
            else
                rest += 1 + extension(m.literals) + m.literals;
            rest += 2 + extension(m.length - 4);
        }
        count += __popc(threads);
    }
    __device__ __forceinline__ void drop(uint32_t) {}
    __device__ __forceinline__ void step(unsigned, uint32_t) {}
    __device__ __forceinline__ void gap(uint32_t, uint32_t) {}
};

extern "C" __global__ __launch_bounds__(warp_size) void quiver_lz4_matches(const uint8_t* src, const SourcePiece* pieces, EncodedSequence* sequences, EncodedPiece* encoded) {
    __shared__ Table<small_table> table;
    const SourcePiece piece = pieces[blockIdx.x];
    Finder<small_table> finder;
    finder.open(table, src + piece.src);
    PieceWriter out = {sequences + piece.scratch};
    const uint32_t tail = piece.size - finder.find<false>(0, piece.matched, 8 * entropy_unit, out);
    const uint32_t first = warp_sum(out.first), rest = warp_sum(out.rest);
    if (lane() == 0) encoded[blockIdx.x] = {out.count, first, rest, tail};
}

// A warp for each item. The pieces of item i are those from starts[i] on.
extern "C" __global__ __launch_bounds__(256) void quiver_lz4_place(uint8_t* dst, const Item* items, const uint32_t* starts, EncodedPiece* encoded, Result* results, int64_t n) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const uint32_t first = starts[i], last = starts[i + 1];
    uint32_t at = 0, literals = 0;  // those since the last match
    for (uint32_t k = first + lane(); k - lane() < last; k += warp_size) {
        EncodedPiece e = {};
        if (k < last) e = encoded[k];
        const unsigned matched = __ballot_sync(~0u, e.sequences > 0), before = matched & ((1u << lane()) - 1);
        const auto until = [&](unsigned threads, uint32_t tails) {  // tails of the pieces before the last one of some threads
            return __shfl_sync(~0u, tails, threads ? 31 - __clz(threads) : 0);
        };
        uint32_t all_tails, all;
        const uint32_t tails = warp_sum_before(e.tail, all_tails), earlier = until(before, tails), latest = until(matched, tails);
        e.carried = before ? tails - earlier : literals + tails;
        literals = matched ? all_tails - latest : literals + all_tails;
        const uint32_t run = e.carried + e.first;
        e.out = at + warp_sum_before(e.sequences > 0 ? 1 + extension(run) + run + e.rest : 0, all);
        at += all;
        if (k < last) encoded[k] = e;
    }
    const uint64_t end = (uint64_t)at + 1 + extension(literals) + literals;
    if (end > (uint64_t)items[i].dst_size) {
        if (lane() == 0) results[i] = {0, too_large, 0};
        return;
    }
    if (lane() == 0) {
        results[i] = {(int64_t)end, ok, 0};
        if (first == last) dst[items[i].dst] = 0;  // no literals
    }
    uint32_t next = end - literals;  // where the literals before the next match begin
    for (uint32_t left = last - first; left > 0;) {
        const uint32_t group = (left - 1) / warp_size * warp_size, k = first + group + lane();
        EncodedPiece e = {};
        if (k < last) e = encoded[k];
        const unsigned matched = __ballot_sync(~0u, e.sequences > 0), after = matched & bits_from(lane() + 1);
        const uint32_t begin = e.out + 1 + extension(e.carried + e.first), later = __shfl_sync(~0u, begin, after ? __ffs(after) - 1 : 0);
        if (k < last) encoded[k].tail_out = (after ? later : next) + (e.sequences > 0 ? 0 : e.carried);
        if (k == last - 1) encoded[k].last_out = at, encoded[k].last_literals = literals;
        const uint32_t earliest = __shfl_sync(~0u, begin, matched ? __ffs(matched) - 1 : 0);
        if (matched) next = earliest;
        left = group;
    }
}

// Writes the bytes that extend a length, with the threads that have one.
__device__ __forceinline__ void write_extension(uint8_t* to, uint32_t length, bool mine) {
    const uint32_t n = mine ? extension(length) : 0;
    if (n > 0) to[n - 1] = length - 15 - 255 * (n - 1);
    if (n > 1 && n <= 8)
        for (uint32_t i = 0; i < n - 1; i++) to[i] = 255;
    for (unsigned todo = __ballot_sync(~0u, n > 8); todo; todo &= todo - 1) {
        const int who = __ffs(todo) - 1;
        const uint32_t bytes = __shfl_sync(~0u, n, who) - 1;
        uint8_t* const p = (uint8_t*)__shfl_sync(~0u, (uint64_t)to, who);
        for (uint32_t i = lane(); i < bytes; i += warp_size) p[i] = 255;
    }
}

extern "C" __global__ __launch_bounds__(warp_size) void quiver_lz4_write(uint8_t* dst, const uint8_t* src, const Item* items, const uint32_t* starts, const SourcePiece* pieces, const EncodedSequence* sequences, const EncodedPiece* encoded, const Result* results) {
    const SourcePiece piece = pieces[blockIdx.x];
    if (results[piece.item].status != ok) return;
    const EncodedPiece e = encoded[blockIdx.x];
    dst += items[piece.item].dst, src += piece.src;
    uint32_t at = e.out, from = 0;
    for (uint32_t done = 0; done < e.sequences; done += warp_size) {
        const bool mine = done + lane() < e.sequences;
        EncodedSequence s = {0, 4, 0, 0};
        if (mine) s = sequences[piece.scratch + done + lane()];
        const uint32_t carried = done + lane() == 0 ? e.carried : 0, literals = s.literals + carried, match = s.match - 4;
        const uint32_t header = 1 + extension(literals);
        uint32_t all, all_from;
        uint8_t* to = dst + at + warp_sum_before(mine ? header + literals + 2 + extension(match) : 0, all);
        const uint8_t* const own = src + from + warp_sum_before(mine ? s.literals + s.match : 0, all_from);
        if (mine) to[0] = min(literals, 15u) << 4 | min(match, 15u);
        write_extension(to + 1, literals, mine);
        uint8_t* const own_to = to + header + carried;
        to += header + literals;
        if (mine) to[0] = s.offset, to[1] = s.offset >> 8;
        write_extension(to + 2, match, mine);
        // A thread copies a few literals, the warp more.
        constexpr uint32_t few = 8;
        const uint32_t n = mine ? s.literals : 0;
        if (n <= few)
            for (uint32_t i = 0; i < n; i++) own_to[i] = own[i];
        for (unsigned todo = __ballot_sync(~0u, n > few); todo; todo &= todo - 1) {
            const int who = __ffs(todo) - 1;
            copy_bytes((uint8_t*)__shfl_sync(~0u, (uint64_t)own_to, who), (const uint8_t*)__shfl_sync(~0u, (uint64_t)own, who), __shfl_sync(~0u, n, who));
        }
        at += all, from += all_from;
    }
    copy_bytes(dst + e.tail_out, src + piece.size - e.tail, e.tail);
    if (starts[piece.item + 1] == blockIdx.x + 1) {
        if (lane() == 0) dst[e.last_out] = min(e.last_literals, 15u) << 4;
        write_extension(dst + e.last_out + 1, e.last_literals, lane() == 0);
    }
}
