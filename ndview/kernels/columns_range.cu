// Arrow columns: runs of values, which are text, bytes or lists, chosen and put
// one after the other.
//
// Run i of an array begins at value starts[i], and ends at starts[i+1], or has
// sizes[i] values where there are sizes. Piece j of the result is run at[j], or j
// without indices, and nothing for -1 and where the run is not valid. Lengths are
// measured in tiles of 2048 pieces; a scan of the tiles' sums tells where each
// begins, and then each tile writes its offsets.

#include "warp.cuh"

constexpr int threads = 256;
constexpr int unroll = 8;
constexpr int tile = threads * unroll;

__device__ __forceinline__ bool bit(const uint8_t* __restrict__ bytes, int64_t first, int64_t i) {
    i += first;
    return bytes == nullptr || (__ldg(bytes + (i >> 3)) >> (i & 7) & 1);
}

// The sum of v over the threads before this one, and over all of the block.
__device__ __forceinline__ int64_t sum_before(int64_t v, int64_t& all) {
    __shared__ int64_t sums[threads / warp_size];
    int64_t sum = v;
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
        const int64_t other = __shfl_up_sync(~0u, sum, step);
        if (lane() >= step) sum += other;
    }
    if (lane() == warp_size - 1) sums[threadIdx.x / warp_size] = sum;
    __syncthreads();
    int64_t before = 0;
    all = 0;
#pragma unroll
    for (int w = 0; w < threads / warp_size; w++) {
        if (w < (int)threadIdx.x / warp_size) before += sums[w];
        all += sums[w];
    }
    __syncthreads();
    return before + sum - v;
}

// out[j] = how many values piece j has, and begins[j] = where in the source;
// sums[t] = how many those of tile t have. A run outside `limit` values counts as
// empty, and lowers the flag to j.
template <typename W>
__device__ __forceinline__ void lengths(const W* __restrict__ starts, const W* __restrict__ sizes,
                                        const int64_t* __restrict__ at, const uint8_t* __restrict__ valid, int64_t first,
                                        int64_t n, int64_t limit, int64_t* __restrict__ out, int64_t* __restrict__ begins,
                                        int64_t* __restrict__ sums, unsigned long long* flag) {
    const int64_t base = (int64_t)blockIdx.x * tile + threadIdx.x;
    int64_t run[unroll], from[unroll], size[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = base + u * threads;
        run[u] = j >= n ? -1 : at == nullptr ? j : __ldcs(at + j);
    }
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        from[u] = size[u] = 0;
        if (run[u] < 0 || !bit(valid, first, run[u])) continue;
        from[u] = __ldg(starts + run[u]);
        size[u] = sizes != nullptr ? (int64_t)__ldg(sizes + run[u]) : (int64_t)__ldg(starts + run[u] + 1) - from[u];
    }
    int64_t sum = 0, all;
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = base + u * threads;
        if (from[u] < 0 || size[u] < 0 || from[u] > limit - size[u]) {
            atomicMin(flag, (unsigned long long)j);
            from[u] = size[u] = 0;
        }
        if (j < n) {
            out[j] = size[u];
            begins[j] = from[u];
        }
        sum += size[u];
    }
    sum_before(sum, all);
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

#define LENGTHS(BITS, W)                                                                                               \
    extern "C" __global__ void quiver_lengths_##BITS(const W* starts, const W* sizes, int64_t runs, const int64_t* at, \
                                                     const uint8_t* valid, int64_t first, int64_t n, int64_t limit,    \
                                                     int64_t* out, int64_t* begins, int64_t* sums,                     \
                                                     unsigned long long* flag) {                                       \
        lengths(starts, sizes, at, valid, first, n, limit, out, begins, sums, flag);                                   \
    }

LENGTHS(32, int32_t)
LENGTHS(64, int64_t)

// starts[t] = the sum of sums[0 .. t) for 0 <= t <= tiles; starts[tiles+1] = the
// flag. A block does 4 tiles a thread, and sums what is before them by itself.
extern "C" __global__ void quiver_scan(const int64_t* __restrict__ sums, int64_t tiles, const int64_t* flag,
                                       int64_t* __restrict__ starts) {
    constexpr int each = 4;
    const int64_t first = (int64_t)blockIdx.x * (threads * each);
    int64_t sum = 0, before;
#pragma unroll 8
    for (int64_t t = threadIdx.x; t < first; t += threads) sum += __ldg(sums + t);
    sum_before(sum, before);
    const int64_t mine = first + threadIdx.x * each;
    int64_t s[each], total = 0, all;
    for (int i = 0; i < each; i++) {
        s[i] = mine + i < tiles ? sums[mine + i] : 0;
        total += s[i];
    }
    int64_t start = before + sum_before(total, all);
    for (int i = 0; i < each; i++) {
        if (mine + i <= tiles) starts[mine + i] = start;
        start += s[i];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) starts[tiles + 1] = *flag;
}

// out[j] = where piece j begins, and out[n] = where the last ends.
template <typename W>
__device__ __forceinline__ void offsets(const int64_t* __restrict__ lengths, int64_t n, const int64_t* __restrict__ starts,
                                        W* __restrict__ out) {
    const int64_t base = (int64_t)blockIdx.x * tile + threadIdx.x;
    int64_t v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) v[u] = base + u * threads < n ? __ldcs(lengths + base + u * threads) : 0;
    int64_t start = starts[blockIdx.x];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        int64_t all;
        const int64_t before = sum_before(v[u], all);
        const int64_t j = base + u * threads;
        if (j < n) out[j] = (W)(start + before);
        if (j == n - 1) out[n] = (W)(start + before + v[u]);
        start += all;
    }
}

#define OFFSETS(BITS, W)                                                                                     \
    extern "C" __global__ void quiver_offsets_##BITS(const int64_t* lengths, int64_t n, const int64_t* starts, \
                                                     W* out) {                                               \
        offsets(lengths, n, starts, out);                                                                    \
    }

OFFSETS(32, int32_t)
OFFSETS(64, int64_t)

// The last piece that begins at or before a value, which some piece has. The
// threads of a warp look at 32 offsets at once.
template <typename W>
__device__ __forceinline__ int64_t piece_of(const W* __restrict__ to, int64_t n, int64_t value) {
    int64_t low = 0, count = n;  // the piece is one of [low, low+count)
    while (count > 1) {
        const int64_t step = (count + warp_size - 1) / warp_size;
        const int64_t j = low + lane() * step;
        const bool before = lane() * step < count && (int64_t)__ldg(to + j) <= value;
        const int last = 31 - __clz(__ballot_sync(~0u, before));
        low += last * step;
        count = min(step, count - last * step);
    }
    return low;
}

// The pieces that some bytes of the result are of, [first, end): as many as fit
// are kept in shared memory, by where they begin from `first` on, and with what is to
// be added to a byte's place from `first` on to find it in the source. Values have
// `each` bytes.
constexpr int kept = 1024;

template <typename V>
struct Pieces {
    const int64_t* from;
    const V* to;
    int64_t each, first;
    int64_t* ends;  // the pieces of the first and of the last byte
    int32_t* begins;
    int64_t* shifts;
    int count;  // of pieces that are kept, or 0

    __device__ __forceinline__ int64_t begin(int64_t j) const { return (int64_t)__ldg(to + j) * each - first; }
    __device__ __forceinline__ int64_t shift(int64_t j) const { return __ldg(from + j) * each - begin(j); }

    // It is called by all threads of a block.
    __device__ __forceinline__ void load(int64_t n, int64_t end) {
        const int warp = threadIdx.x / warp_size;
        if (warp < 2) {
            const int64_t j = piece_of(to, n, (warp == 0 ? first : end - 1) / each);
            if (lane() == 0) ends[warp] = j;
        }
        __syncthreads();
        const int64_t all = ends[1] - ends[0] + 1;
        count = all <= kept ? (int)all : 0;
        for (int k = threadIdx.x; k < count; k += threads) {
            begins[k] = (int32_t)max(begin(ends[0] + k), (int64_t)0);
            shifts[k] = shift(ends[0] + k);
        }
        if (threadIdx.x == 0) begins[count] = (int32_t)(end - first);
        __syncthreads();
    }

    // The piece of a byte, of those that are kept or of all. Of pieces with the same
    // beginning only the last has bytes.
    __device__ __forceinline__ int64_t find(int byte) const {
        if (count) {
            int low = 0, high = count - 1;
            while (low < high) {
                const int middle = (low + high + 1) / 2;
                if (begins[middle] <= byte) low = middle;
                else high = middle - 1;
            }
            return low;
        }
        int64_t low = ends[0], high = ends[1];
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (begin(middle) <= byte) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    // The next piece from j on that has the byte, at most the last, where it ends, and
    // what finds its bytes.
    __device__ __forceinline__ int64_t next(int64_t j, int byte, int64_t& end, int64_t& move) const {
        if (count) {
            while (begins[j + 1] <= byte) j++;
            end = begins[j + 1];
            move = shifts[j];
        } else {
            while (begin(j + 1) <= byte) j++;
            end = begin(j + 1);
            move = shift(j);
        }
        return j;
    }
};

#define PIECES                              \
    __shared__ int64_t shared_ends[2];      \
    __shared__ int64_t shared_shifts[kept]; \
    __shared__ int32_t shared_begins[kept + 1]

// Up to 8 bytes from an address on; those beyond count are of no value. It reads
// the aligned words that hold the bytes, unless one reaches beyond the end.
__device__ __forceinline__ uint64_t load_bytes(const uint8_t* from, int count, const uint8_t* end) {
    const int skew = (int)((uintptr_t)from & 7);
    const uint64_t* words = (const uint64_t*)(from - skew);
    const int last = (skew + count - 1) >> 3;  // of two words
    if ((const uint8_t*)(words + last + 1) <= end) {
        uint64_t v = __ldg(words) >> (8 * skew);
        if (last) v |= __ldg(words + 1) << (64 - 8 * skew);
        return v;
    }
    uint64_t v = 0;
    for (int b = 0; b < count; b++) v |= (uint64_t)from[b] << (8 * b);
    return v;
}

// out = the bytes of the pieces, one piece behind the other. A thread makes words of
// 8 bytes, 256 apart; a block makes 8 KiB.
constexpr int words = 4;
constexpr int tile_bytes = threads * words * 8;

template <typename V>
__device__ __forceinline__ void gather(const uint8_t* __restrict__ src, int64_t size, const int64_t* __restrict__ from,
                                       const V* __restrict__ to, int64_t n, int64_t each, int64_t total,
                                       uint8_t* __restrict__ out) {
    PIECES;
    const int64_t first = (int64_t)blockIdx.x * tile_bytes, last = min(first + tile_bytes, total);
    Pieces<V> p{from, to, each, first, shared_ends, shared_begins, shared_shifts, 0};
    p.load(n, last);
    const uint8_t* end = src + size;
#pragma unroll 1
    for (int u = 0; u < words; u++) {
        const int at = (u * threads + (int)threadIdx.x) * 8;
        const int many = (int)min((int64_t)8, last - first - at);
        if (many <= 0) return;
        int64_t j = p.find(at);
        uint64_t v = 0;
        for (int done = 0; done < many;) {
            int64_t stop, move;
            j = p.next(j, at + done, stop, move);
            const int count = (int)min((int64_t)(many - done), stop - (at + done));
            uint64_t some = load_bytes(src + move + at + done, count, end);
            if (count < 8) some &= (1ull << (8 * count)) - 1;
            v |= some << (8 * done);
            done += count;
        }
        uint8_t* mine = out + first + at;
        if (many == 8) {
            *(uint64_t*)mine = v;
        } else {
            for (int b = 0; b < many; b++) mine[b] = (uint8_t)(v >> (8 * b));
        }
    }
}

#define GATHER(BITS, V)                                                                                                \
    extern "C" __global__ void quiver_gather_ranges_##BITS(const uint8_t* src, int64_t size, const int64_t* from,      \
                                                           const V* to, int64_t n, int64_t each, int64_t total,        \
                                                           uint8_t* out) {                                             \
        gather(src, size, from, to, n, each, total, out);                                                              \
    }

GATHER(32, int32_t)
GATHER(64, int64_t)

// out[k] = the place in the source of value k of the result.
template <typename V>
__device__ __forceinline__ void expand(const int64_t* __restrict__ from, const V* __restrict__ to, int64_t n, int64_t total,
                                       int64_t* __restrict__ out) {
    PIECES;
    const int64_t first = (int64_t)blockIdx.x * tile, last = min(first + tile, total);
    Pieces<V> p{from, to, 1, first, shared_ends, shared_begins, shared_shifts, 0};
    p.load(n, last);
    for (int k = threadIdx.x; k < last - first; k += threads) {
        int64_t end, move;
        p.next(p.find(k), k, end, move);
        out[first + k] = move + k;
    }
}

#define EXPAND(BITS, V)                                                                                                \
    extern "C" __global__ void quiver_expand_ranges_##BITS(const int64_t* from, const V* to, int64_t n, int64_t total, \
                                                           int64_t* out) {                                             \
        expand(from, to, n, total, out);                                                                               \
    }

EXPAND(32, int32_t)
EXPAND(64, int64_t)
