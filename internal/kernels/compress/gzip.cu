// Decodes gzip members (RFC 1952), zlib streams (RFC 1950) and deflate streams (RFC 1951): a
// warp for each item. All of its threads read the same symbols; they copy matches and
// compute checksums together.

#include "compress/batch.cuh"
#include "compress/copy.cuh"

enum Format : int64_t { gzip, zlib, deflate };

constexpr int longest = 15;  // bits of a code
constexpr int literal_symbols = 288, distance_symbols = 32, length_symbols = 19, end_of_block = 256;
constexpr int literal_index = 10, distance_index = 8, length_index = 7;  // bits that index a table

// A canonical code. An entry of the table is a symbol, shifted by 4, and the length of its
// code, or 0 if that is longer than the index.
template <int index, int symbols> struct Code {
    static constexpr int index_bits = index;
    uint16_t table[1 << index], sorted[symbols];             // symbols in order of their codes
    uint16_t first[longest + 1], count[longest + 1], before[longest + 1];  // by length: first code, codes, codes that are shorter

    // Returns the entry of the code with which bits, the first one highest, begin. Its
    // length is from low to high.
    __device__ __forceinline__ uint32_t find(uint32_t bits, int width, int low, int high) const {
        for (int n = low; n <= high; n++) {
            const uint32_t at = (bits >> (width - n)) - first[n];
            if (at < count[n]) return sorted[before[n] + at] << 4 | n;
        }
        return 0;
    }

    // Makes the code of the given lengths of n symbols, and reports whether it is valid:
    // complete, or without symbols, or one symbol of one bit.
    __device__ bool build(const uint8_t* lengths, int n) {
        __syncwarp();
        const int length = lane();
        int codes = 0;
        if (length > 0 && length <= longest)
            for (int s = 0; s < n; s++) codes += lengths[s] == length;
        int left = 1, code = 0, shorter = 0, most = 0, my_first = 0, my_before = 0;
        bool over = false;
        for (int k = 1; k <= longest; k++) {
            const int c = __shfl_sync(~0u, codes, k);
            if (length == k) my_first = code, my_before = shorter;
            left = 2 * left - c;
            if (left < 0) over = true, left = 0;
            code = (code + c) << 1, shorter += c;
            if (c > 0) most = k;
        }
        if (over || (left > 0 && !(shorter == 0 || (most == 1 && shorter == 1)))) return false;
        if (length > 0 && length <= longest) {
            first[length] = my_first, count[length] = codes, before[length] = my_before;
            if (codes > 0)
                for (int s = 0, at = my_before; s < n; s++)
                    if (lengths[s] == length) sorted[at++] = s;
        }
        __syncwarp();
        for (uint32_t e = lane(); e < 1u << index; e += warp_size) table[e] = find(__brev(e) >> (32 - index), index, 1, index);
        __syncwarp();
        return true;
    }
};

using Literals = Code<literal_index, literal_symbols>;
using Distances = Code<distance_index, distance_symbols>;
using Lengths = Code<length_index, length_symbols>;

// The bits of an input, from words of 4 bytes. After its end, bits are undefined, and only
// their number tells.
struct BitReader {
    const uint32_t* words;
    uint32_t size;        // of the input in bytes, from the start of the first word
    uint32_t at;          // number of the next word
    uint32_t next;        // that word
    uint64_t bits;
    int count;            // valid bits

    __device__ __forceinline__ uint32_t word(uint32_t i) const { return (uint64_t)i * 4 < size ? words[i] : 0; }

    // Begins at a position of the input, which begins skip bytes after the first word.
    __device__ __forceinline__ void seek(uint32_t position) {
        at = position / 4;
        const int skip = 8 * (position % 4);
        bits = word(at++) >> skip;
        count = 32 - skip;
        next = word(at);
        fill();
    }

    // Makes more than 32 bits valid.
    __device__ __forceinline__ void fill() {
        if (count > 32) return;
        bits |= (uint64_t)next << count;
        count += 32;
        next = word(++at);
    }

    __device__ __forceinline__ uint32_t take(int n) {  // n < 32; fill before
        const uint32_t v = (uint32_t)bits & ((1u << n) - 1);
        bits >>= n, count -= n;
        return v;
    }

    // The number of bytes that are consumed, the last one perhaps in part.
    __device__ __forceinline__ int64_t consumed() const { return ((int64_t)at * 32 - count + 7) / 8; }
    __device__ __forceinline__ bool beyond() const { return consumed() > size; }

    // Reads a symbol, or -1 for bits that are no code. At least 15 bits must be valid.
    template <typename Code> __device__ __forceinline__ int symbol(const Code& code) {
        uint32_t e = code.table[bits & ((1 << Code::index_bits) - 1)];
        if (e == 0) e = code.find(__brev((uint32_t)bits) >> (32 - longest), longest, Code::index_bits + 1, longest);
        bits >>= e & 15, count -= e & 15;
        return e ? (int)(e >> 4) : -1;
    }
};

struct Shared {
    Literals literals;
    Distances distances;
    Lengths lengths;
    uint8_t bits[literal_symbols + distance_symbols];  // lengths of the codes
    uint32_t crc[256];
};

static __device__ const uint8_t length_order[length_symbols] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

struct Inflater {
    Shared& shared;
    BitReader in;
    uint8_t* dst;
    uint32_t out, capacity;  // bytes of the output, including those in `literals`
    uint32_t start;          // of the stream's history
    uint32_t pending;        // number of literals that are not yet written: one per thread
    uint8_t literal;

    __device__ __forceinline__ void flush() {
        if (lane() < pending) dst[out - pending + lane()] = literal;
        pending = 0;
        __syncwarp();
    }

    // Copies a match within the output.
    __device__ __forceinline__ void match(uint32_t length, uint32_t distance) {
        flush();
        const uint8_t* from = dst + out - distance;
        for (uint32_t i = lane(); i < length; i += warp_size) dst[out + i] = from[i < distance ? i : i % distance];
        out += length;
    }

    __device__ Status stored() {
        in.take(in.count & 7);
        in.fill();
        const uint32_t size = in.take(16);
        in.fill();
        const uint32_t inverse = in.take(16);
        if (in.beyond()) return truncated;
        if (size != (inverse ^ 0xffff)) return corrupt;
        const uint32_t at = in.consumed();
        if (size > in.size - at) return truncated;
        if (size > capacity - out) return too_large;
        flush();
        copy_bytes(dst + out, (const uint8_t*)in.words + at, size, lane(), warp_size);
        out += size;
        in.seek(at + size);
        return ok;
    }

    __device__ Status read_codes() {
        in.fill();
        const int literals = in.take(5) + 257, distances = in.take(5) + 1, lengths = in.take(4) + 4;
        if (literals > 286 || distances > 30) return corrupt;
        __syncwarp();
        if (lane() < length_symbols) shared.bits[lane()] = 0;
        __syncwarp();
        for (int i = 0; i < lengths; i++) {
            in.fill();
            const uint32_t n = in.take(3);
            if (lane() == 0) shared.bits[length_order[i]] = n;
        }
        if (in.beyond()) return truncated;
        if (!shared.lengths.build(shared.bits, length_symbols)) return corrupt;
        uint32_t previous = 0;
        for (int i = 0; i < literals + distances;) {
            in.fill();
            const int symbol = in.symbol(shared.lengths);
            if (symbol < 0) return corrupt;
            uint32_t value = symbol, times = 1;
            if (symbol == 16) {
                if (i == 0) return corrupt;
                value = previous, times = 3 + in.take(2);
            } else if (symbol == 17) {
                value = 0, times = 3 + in.take(3);
            } else if (symbol == 18) {
                value = 0, times = 11 + in.take(7);
            }
            if (times > literals + distances - i) return corrupt;
            for (uint32_t k = lane(); k < times; k += warp_size) shared.bits[i + k] = value;
            i += times, previous = value;
        }
        if (in.beyond()) return truncated;
        return shared.literals.build(shared.bits, literals) && shared.distances.build(shared.bits + literals, distances) ? ok : corrupt;
    }

    __device__ void use_fixed_codes() {
        __syncwarp();
        for (int i = lane(); i < literal_symbols; i += warp_size) shared.bits[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
        shared.bits[literal_symbols + lane()] = 5;
        shared.literals.build(shared.bits, literal_symbols);
        shared.distances.build(shared.bits + literal_symbols, distance_symbols);
    }

    __device__ Status symbols() {
        for (;;) {
            in.fill();
            const int symbol = in.symbol(shared.literals);
            if (symbol < 0) return in.beyond() ? truncated : corrupt;
            if (symbol < end_of_block) {
                if (out == capacity) return in.beyond() ? truncated : too_large;
                if (lane() == pending) literal = symbol;
                out++;
                if (++pending == warp_size) {
                    if (in.beyond()) return truncated;  // what follows the input may be literals without an end
                    flush();
                }
                continue;
            }
            if (symbol == end_of_block) return in.beyond() ? truncated : ok;
            const int l = symbol - end_of_block - 1;
            if (l > 28) return corrupt;
            uint32_t length = 258;
            if (l < 8) {
                length = 3 + l;
            } else if (l < 28) {
                const int extra = l / 4 - 1;
                length = 3 + ((4 + l % 4) << extra) + in.take(extra);
            }
            in.fill();
            const int d = in.symbol(shared.distances);
            if (d < 0 || d > 29) return in.beyond() ? truncated : corrupt;
            uint32_t distance = 1 + d;
            if (d >= 4) {
                const int extra = d / 2 - 1;
                distance = 1 + ((2 + d % 2) << extra) + in.take(extra);
            }
            if (in.beyond()) return truncated;
            if (distance > out - start) return bad_offset;
            if (length > capacity - out) return too_large;
            match(length, distance);
        }
    }

    // Decodes a stream from a position, and sets it to the one after.
    __device__ Status stream(uint32_t& position) {
        start = out;
        in.seek(position);
        for (bool last = false; !last;) {
            in.fill();
            last = in.take(1);
            const int kind = in.take(2);
            if (in.beyond()) return truncated;
            Status status = ok;
            if (kind == 0) {
                status = stored();
            } else if (kind == 3) {
                status = corrupt;
            } else {
                if (kind == 1)
                    use_fixed_codes();
                else
                    status = read_codes();
                if (status == ok) status = symbols();
            }
            if (status != ok) return status;
        }
        flush();
        position = in.consumed();
        return ok;
    }
};

// Returns the product of two polynomials modulo that of CRC-32. Bit 31 is x^0.
__device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 31; i >= 0; i--) {
        product ^= a >> i & 1 ? b : 0;
        b = b >> 1 ^ (b & 1 ? 0xedb88320 : 0);
    }
    return product;
}

// Returns x^(8 n).
__device__ __forceinline__ uint32_t power(uint32_t n) {
    uint32_t product = 0x80000000, square = 0x00800000;
    for (; n > 0; n /= 2) {
        if (n & 1) product = multiply(product, square);
        square = multiply(square, square);
    }
    return product;
}

// The rows of data that the threads of a warp process.
struct Row {
    uint32_t begin, end, after;  // after: bytes that follow

    __device__ __forceinline__ Row(uint32_t size) {
        const uint32_t each = (size + warp_size - 1) / warp_size;
        begin = min((uint64_t)each * lane(), (uint64_t)size), end = min((uint64_t)begin + each, (uint64_t)size), after = size - end;
    }
};

__device__ uint32_t crc32(const uint32_t* table, const uint8_t* data, uint32_t size) {
    const Row row(size);
    uint32_t r = lane() == 0 ? ~0u : 0;  // the first row has bytes if any has
    for (uint32_t i = row.begin; i < row.end; i++) r = table[(r ^ data[i]) & 255] ^ r >> 8;
    r = multiply(r, power(row.after));
    for (int step = warp_size / 2; step > 0; step /= 2) r ^= __shfl_xor_sync(~0u, r, step);
    return ~r;
}

__device__ uint32_t adler32(const uint8_t* data, uint32_t size) {
    constexpr uint32_t prime = 65521, most = 5552;  // bytes for which sums fit 32 bits
    const Row row(size);
    uint32_t a = lane() == 0 ? 1 : 0, b = 0;
    for (uint32_t i = row.begin; i < row.end;) {
        for (const uint32_t stop = min(row.end, i + most); i < stop; i++) a += data[i], b += a;
        a %= prime, b %= prime;
    }
    b = (b + (uint64_t)a * row.after) % prime;
    for (int step = warp_size / 2; step > 0; step /= 2) a += __shfl_xor_sync(~0u, a, step), b += __shfl_xor_sync(~0u, b, step);
    return b % prime << 16 | a % prime;
}

__device__ __forceinline__ uint32_t load32(const uint8_t* p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }

// Sets at to the position after the header of a member, which ends before size.
__device__ Status gzip_header(const uint32_t* table, const uint8_t* src, uint32_t& at, uint32_t size) {
    const uint32_t begin = at;
    if (size - at < 10) return truncated;
    if (src[at] != 0x1f || src[at + 1] != 0x8b || src[at + 2] != 8) return corrupt;
    const uint32_t flags = src[at + 3];
    at += 10;
    if (flags & 4) {
        if (size - at < 2) return truncated;
        const uint32_t extra = src[at] | src[at + 1] << 8;
        at += 2;
        if (extra > size - at) return truncated;
        at += extra;
    }
    for (int flag = 8; flag <= 16; flag *= 2)
        if (flags & flag) {
            while (at < size && src[at]) at++;
            if (at == size) return truncated;
            at++;
        }
    if (flags & 2) {
        if (size - at < 2) return truncated;
        if ((crc32(table, src + begin, at - begin) & 0xffff) != (src[at] | src[at + 1] << 8)) return corrupt;
        at += 2;
    }
    return ok;
}

extern "C" __global__ __launch_bounds__(warp_size) void quiver_gzip_decode(uint8_t* dst, const uint8_t* src, const Item* items, Result* results, int64_t format) {
    __shared__ Shared shared;
    for (uint32_t i = lane(); i < 256; i += warp_size) {
        uint32_t r = i;
        for (int k = 0; k < 8; k++) r = r >> 1 ^ (r & 1 ? 0xedb88320 : 0);
        shared.crc[i] = r;
    }
    __syncwarp();
    const Item item = items[blockIdx.x];
    src += item.src;
    // Positions count from the word that has the first byte.
    const uint32_t skip = (uintptr_t)src & 3, size = item.src_size + skip;
    src -= skip;
    Inflater f = {shared};
    f.in.words = (const uint32_t*)src, f.in.size = size;
    f.dst = dst + item.dst, f.out = 0, f.capacity = item.dst_size, f.pending = 0, f.literal = 0;
    uint32_t at = skip;
    Status status = ok;
    do {
        if (format == gzip) {
            status = gzip_header(shared.crc, src, at, size);
        } else if (format == zlib) {
            if (size - at < 2)
                status = truncated;
            else if ((src[at] & 15) != 8 || src[at] >> 4 > 7 || (src[at] << 8 | src[at + 1]) % 31 != 0)
                status = corrupt;
            else if (src[at + 1] & 0x20)
                status = unsupported;
            at += 2;
        }
        if (status == ok) status = f.stream(at);
        if (status != ok) break;
        const uint8_t* data = f.dst + f.start;
        const uint32_t length = f.out - f.start;
        if (format == gzip) {
            if (size - at < 8)
                status = truncated;
            else if (crc32(shared.crc, data, length) != load32(src + at) || length != load32(src + at + 4))
                status = bad_checksum;
            at += 8;
        } else if (format == zlib) {
            if (size - at < 4) {
                status = truncated;
            } else {
                const uint32_t sum = load32(src + at);
                if (adler32(data, length) != __byte_perm(sum, 0, 0x0123)) status = bad_checksum;
            }
            at += 4;
        }
    } while (status == ok && format == gzip && at < size);
    if (status == ok && at != size) status = corrupt;
    if (lane() == 0) results[blockIdx.x] = {status == ok ? f.out : 0, status, 0};
}
