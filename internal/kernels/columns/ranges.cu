// Arrow columns: gathers ranges of values (strings, binary values, lists) and concatenates
// them.
//
// Range i of an array begins at value starts[i]. It ends at starts[i+1] or, if there are
// sizes, has sizes[i] values. Piece j of the result is range at[j], or range j without
// indices; it is empty for -1 and for nulls. Lengths are computed in tiles of 2048 pieces.
// Prefix sums of the tiles' lengths give the position of each tile, and then each tile
// writes its offsets.

#include "common/scan.cuh"

constexpr int threads = 256;
constexpr int unroll = 8;
constexpr int tile = threads * unroll;

__device__ __forceinline__ bool bit(const uint8_t* __restrict__ bytes, int64_t first, int64_t i) {
    i += first;
    return bytes == nullptr || (__ldg(bytes + (i >> 3)) >> (i & 7) & 1);
}

// out[j] = the length of piece j, begins[j] = where it begins in the source, and sums[t] =
// the sum of lengths in tile t. A range outside `limit` values counts as empty and lowers
// the flag to j.
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
    sum_before<threads>(sum, all);
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

// starts[t] = the sum of sums[0 .. t) for 0 <= t <= tiles; starts[tiles+1] = the flag. A
// block has 4 tiles per thread, and sums all previous tiles itself.
extern "C" __global__ void quiver_scan(const int64_t* __restrict__ sums, int64_t tiles, const int64_t* flag,
                                       int64_t* __restrict__ starts) {
    constexpr int each = 4;
    const int64_t first = (int64_t)blockIdx.x * (threads * each);
    int64_t sum = 0, before;
#pragma unroll 8
    for (int64_t t = threadIdx.x; t < first; t += threads) sum += __ldg(sums + t);
    sum_before<threads>(sum, before);
    const int64_t mine = first + threadIdx.x * each;
    int64_t s[each], total = 0, all;
    for (int i = 0; i < each; i++) {
        s[i] = mine + i < tiles ? sums[mine + i] : 0;
        total += s[i];
    }
    int64_t start = before + sum_before<threads>(total, all);
    for (int i = 0; i < each; i++) {
        if (mine + i <= tiles) starts[mine + i] = start;
        start += s[i];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) starts[tiles + 1] = *flag;
}

// out[j] = where piece j begins, and out[n] = where the last piece ends.
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
        const int64_t before = sum_before<threads>(v[u], all);
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

// Offsets of 32 or 64 bits.
struct Offsets {
    const void* at;
    bool wide;
    __device__ __forceinline__ int64_t operator[](int64_t j) const {
        return wide ? __ldg((const int64_t*)at + j) : (int64_t)__ldg((const int32_t*)at + j);
    }
};

// Returns the last piece that begins at or before a value inside some piece. The threads of
// a warp compare 32 offsets at once.
__device__ __forceinline__ int64_t piece_of(const Offsets& to, int64_t n, int64_t value) {
    int64_t low = 0, count = n;  // the piece is one of [low, low+count)
    while (count > 1) {
        const int64_t step = (count + warp_size - 1) / warp_size;
        const bool before = lane() * step < count && to[low + lane() * step] <= value;
        const int last = 31 - __clz(__ballot_sync(~0u, before));
        low += last * step;
        count = min(step, count - last * step);
    }
    return low;
}

// The pieces of a tile of the result. Values have `each` bytes; positions in a tile are
// bytes from its beginning.
struct Tile {
    const int64_t* from;
    Offsets to;
    int64_t each, first;
    int size;           // bytes
    int64_t low, high;  // the first and the last piece

    // begin is where a piece begins; shift is the difference between a position in the
    // source and one in the tile.
    __device__ __forceinline__ int64_t begin(int64_t j) const { return to[j] * each - first; }
    __device__ __forceinline__ int64_t shift(int64_t j) const { return __ldg(from + j) * each - begin(j); }
};

// Returns the tile of a block. All its threads must call this.
__device__ __forceinline__ Tile tile_of(const int64_t* from, Offsets to, int64_t n, int64_t each, int64_t size, int64_t total) {
    __shared__ int64_t ends[2];
    const int64_t first = blockIdx.x * size, end = min(first + size, total);
    const int warp = threadIdx.x / warp_size;
    if (warp < 2) {
        const int64_t j = piece_of(to, n, (warp == 0 ? first : end - 1) / each);
        if (lane() == 0) ends[warp] = j;
    }
    __syncthreads();
    return {from, to, each, first, (int)(end - first), ends[0], ends[1]};
}

constexpr int tile_bytes = threads * 64;
constexpr int few = 24;  // bytes per piece, below which pieces count as short
constexpr int kept = tile_bytes / few;

// The pieces of a tile, if they are few enough for shared memory.
struct Kept {
    int64_t shift[kept];
    int32_t begin[kept + 1];
    int count;
};

__device__ __forceinline__ void keep(Kept& k, const Tile& t) {
    const int count = (int)(t.high - t.low) + 1;
    for (int j = threadIdx.x; j < count; j += threads) {
        k.begin[j] = (int32_t)max(t.begin(t.low + j), (int64_t)0);
        k.shift[j] = t.shift(t.low + j);
    }
    if (threadIdx.x == 0) {
        k.begin[count] = t.size;
        k.count = count;
    }
    __syncthreads();
}

// Returns the piece at a position. Of pieces with the same beginning only the last has
// bytes.
__device__ __forceinline__ int find(const Kept& k, int at) {
    int low = 0, high = k.count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (k.begin[middle] <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Returns `count` bytes, up to 8, from an address on; bytes above them are undefined. It
// reads the aligned words that hold the bytes, or single bytes if a word would reach past
// the end.
__device__ __forceinline__ uint64_t load_bytes(const uint8_t* from, int count, const uint8_t* end) {
    const int skew = (int)((uintptr_t)from & 7);
    const uint64_t* words = (const uint64_t*)(from - skew);
    const int last = (skew + count - 1) >> 3;  // whether two words are needed
    if ((const uint8_t*)(words + last + 1) <= end) {
        uint64_t v = __ldg(words) >> (8 * skew);
        if (last) v |= __ldg(words + 1) << (64 - 8 * skew);
        return v;
    }
    uint64_t v = 0;
    for (int b = 0; b < count; b++) v |= (uint64_t)from[b] << (8 * b);
    return v;
}

// Writes the lowest `count` bytes of a word to an address that is aligned if count is 8.
__device__ __forceinline__ void store_bytes(uint8_t* to, int count, uint64_t v) {
    if (count == 8) {
        *(uint64_t*)to = v;
        return;
    }
    for (int b = 0; b < count; b++) to[b] = (uint8_t)(v >> (8 * b));
}

// Gathers a tile of few long pieces: a thread gathers 16 bytes at a time from the pieces
// that they belong to.
__device__ __forceinline__ void gather_long(const Kept& k, const Tile& t, const uint8_t* __restrict__ src,
                                            const uint8_t* end, uint8_t* __restrict__ out) {
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < t.size; at += threads * 16) {
        int j = find(k, at);
        uint64_t v[2] = {0, 0};
        const int stop = min(at + 16, t.size);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int first = at + 8 * half, last = min(first + 8, stop);
            for (int b = first; b < last;) {
                while (k.begin[j + 1] <= b) j++;
                const int count = min(last, k.begin[j + 1]) - b;
                uint64_t some = load_bytes(src + k.shift[j] + b, count, end);
                if (count < 8) some &= (1ull << (8 * count)) - 1;
                v[half] |= some << (8 * (b - first));
                b += count;
            }
        }
        if (stop == at + 16) {
            *(ulonglong2*)(out + at) = make_ulonglong2(v[0], v[1]);
        } else {
            for (int b = at; b < stop; b++) out[b] = (uint8_t)(v[(b - at) / 8] >> (8 * (b & 7)));
        }
    }
}

// Gathers a tile of many short pieces: a thread copies whole pieces to shared memory, a
// warp copies each long one together, and then the block writes the tile.
__device__ __forceinline__ void gather_short(uint8_t* memory, const Tile& t, const uint8_t* __restrict__ src,
                                             const uint8_t* end, uint8_t* __restrict__ out) {
    constexpr int long_piece = 96;
    for (int64_t first = t.low; first <= t.high; first += threads) {
        const int64_t j = first + threadIdx.x;
        int low = 0, high = 0;
        const uint8_t* from = src;
        if (j <= t.high) {
            low = (int)max(t.begin(j), (int64_t)0);
            high = (int)min(t.begin(j + 1), (int64_t)t.size);
            from = src + t.shift(j);
        }
        const bool is_long = high - low > long_piece;
        while (!is_long && low < high) {
            const int count = min(8 - (low & 7), high - low);
            store_bytes(memory + low, count, load_bytes(from + low, count, end));
            low += count;
        }
        for (uint32_t set = __ballot_sync(~0u, is_long); set; set &= set - 1) {
            const int owner = __ffs(set) - 1;
            const int begin = __shfl_sync(~0u, low, owner), stop = __shfl_sync(~0u, high, owner);
            const uint8_t* bytes = (const uint8_t*)__shfl_sync(~0u, (unsigned long long)from, owner);
            for (int word = (begin & ~7) + lane() * 8; word < stop; word += warp_size * 8) {
                const int b = max(word, begin), count = min(word + 8, stop) - b;
                store_bytes(memory + b, count, load_bytes(bytes + b, count, end));
            }
        }
    }
    __syncthreads();
    for (int at = threadIdx.x * 16; at < t.size; at += threads * 16) {
        if (at + 16 <= t.size) {
            *(uint4*)(out + at) = *(const uint4*)(memory + at);
        } else {
            for (int b = at; b < t.size; b++) out[b] = memory[b];
        }
    }
}

// out = the concatenated bytes of the pieces, whose offsets `to` are 64-bit if `wide`. One
// block per tile. Speed depends on the number of threads that wait for memory, so registers
// are limited.
extern "C" __global__ void __launch_bounds__(threads, 2048 / threads)
    quiver_gather_ranges(const uint8_t* __restrict__ src, int64_t size, const int64_t* __restrict__ from,
                         const void* __restrict__ to, int64_t wide, int64_t n, int64_t each, int64_t total,
                         uint8_t* __restrict__ out) {
    __shared__ __align__(16) uint8_t memory[tile_bytes];
    const Tile t = tile_of(from, Offsets{to, wide != 0}, n, each, tile_bytes, total);
    if (t.high - t.low >= kept) {
        gather_short(memory, t, src, src + size, out + t.first);
    } else {
        Kept& k = *(Kept*)memory;
        keep(k, t);
        gather_long(k, t, src, src + size, out + t.first);
    }
}

// out[i] = the position in the source of value i of the result. A block has a tile of 2048
// values. If pieces are short, a thread writes whole pieces.
extern "C" __global__ void quiver_expand_ranges(const int64_t* __restrict__ from, const void* __restrict__ to, int64_t wide,
                                                int64_t n, int64_t total, int64_t* __restrict__ out) {
    __shared__ Kept k;
    const Tile t = tile_of(from, Offsets{to, wide != 0}, n, 1, tile, total);
    out += t.first;
    if (t.high - t.low >= kept) {
        for (int64_t j = t.low + threadIdx.x; j <= t.high; j += threads) {
            const int64_t shift = t.shift(j);
            const int stop = (int)min(t.begin(j + 1), (int64_t)t.size);
            for (int i = (int)max(t.begin(j), (int64_t)0); i < stop; i++) out[i] = i + shift;
        }
        return;
    }
    keep(k, t);
    for (int i = threadIdx.x; i < t.size; i += threads) out[i] = i + k.shift[find(k, i)];
}
