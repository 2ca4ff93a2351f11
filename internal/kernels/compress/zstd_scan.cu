// Finds the frames and the blocks of Zstandard data: a thread for each item. It reads
// headers only, so what it does not see in them is checked by later kernels.

#include "compress/zstd.cuh"

struct Scan {
    const uint8_t* src;
    Item item;
    int64_t at = 0;
    int64_t item_index = 0;
    Block* blocks = nullptr;  // null to count only
    Counts counts = {};
    int64_t smallest = 0, largest = 0;  // bytes of output that the blocks have at least and at most

    __device__ int64_t left() const { return item.src_size - at; }
    __device__ uint32_t byte(int64_t i) const { return src[i]; }
    __device__ uint64_t little(int64_t i, int n) const {
        uint64_t v = 0;
        for (int k = 0; k < n; k++) v |= (uint64_t)src[i + k] << 8 * k;
        return v;
    }

    // Returns the 8 bytes from i on, i < src_size, with two loads at the same time. Those
    // after the end of the input are arbitrary.
    __device__ uint64_t peek(int64_t i) const {
        const uintptr_t p = (uintptr_t)(src + i), shift = p & 3;
        const uint32_t* word = (const uint32_t*)(p - shift);
        const int64_t bytes = item.src_size - i + shift;
        const uint32_t a = word[0], b = bytes > 4 ? word[1] : 0, c = bytes > 8 ? word[2] : 0;
        return __funnelshift_r(a, b, 8 * shift) | (uint64_t)__funnelshift_r(b, c, 8 * shift) << 32;
    }

    __device__ Status run() {
        while (left() > 0) {
            if (left() < 4) return truncated;
            const uint32_t magic = little(at, 4);
            if ((magic & 0xFFFFFFF0) == 0x184D2A50) {
                if (left() < 8) return truncated;
                const int64_t size = little(at + 4, 4);
                if (size > left() - 8) return truncated;
                at += 8 + size;
                continue;
            }
            if (magic != 0xFD2FB528) return corrupt;
            const Status s = frame();
            if (s != ok) return s;
        }
        return ok;
    }

    __device__ Status frame() {
        if (left() < 5) return truncated;
        const uint32_t descriptor = byte(at + 4);
        at += 5;
        const bool single = descriptor >> 5 & 1, checksum = descriptor >> 2 & 1;
        if (descriptor & 8) return corrupt;
        const int dictionary = (1 << (descriptor & 3)) >> 1, flag = descriptor >> 6;
        const int size_bytes = flag == 0 ? single : 1 << flag;
        if (left() < !single + dictionary + size_bytes) return truncated;
        int64_t window = max_block;
        if (!single) {
            const uint32_t w = byte(at++);
            window = 1ll << (10 + (w >> 3));
            window += window / 8 * (w & 7);
        }
        if (dictionary && little(at, dictionary) != 0) return unsupported;
        at += dictionary;
        int64_t content = -1;
        if (size_bytes) {
            content = little(at, size_bytes) + (size_bytes == 2 ? 256 : 0);
            if (content < 0 || content > item.dst_size) return too_large;
        }
        at += size_bytes;
        if (single) window = content;
        const uint32_t most = window < max_block ? window : max_block;
        int64_t huffman = -1, tables[3] = {-1, -1, -1};
        bool first = true;
        for (bool last = false; !last; first = false) {
            if (left() < 3) return truncated;
            const uint64_t head = peek(at);
            const uint32_t header = head & 0xFFFFFF;
            at += 3;
            last = header & 1;
            Block b = {};
            b.src = item.src + at, b.item = item_index;
            b.type = header >> 1 & 3;
            b.frame_begins = first, b.frame_ends = last, b.has_checksum = checksum, b.content_size = content;
            const uint32_t size = header >> 3;
            if (b.type > compressed_block || size > most) return corrupt;
            b.src_size = b.type == rle_block ? 1 : size;
            if (b.src_size > left()) return truncated;
            b.literals = size;
            b.sequences = 1;
            if (b.type == compressed_block) {
                const Status s = compressed(b, most, huffman, tables, head >> 24);
                if (s != ok) return s;
            }
            at += b.src_size;
            if (last && checksum) {
                if (left() < 4) return truncated;
                b.checksum = little(at, 4);
                at += 4;
            }
            smallest += b.literals + 3ll * (b.sequences - 1), largest += b.type == compressed_block ? max_block : b.literals;
            if (smallest > item.dst_size) return too_large;
            b.first_literal = counts.literals, b.first_sequence = counts.sequences;
            if (blocks) blocks[counts.blocks] = b;
            counts.blocks++, counts.literals += b.coded_literals() ? b.literals : 0, counts.sequences += b.sequences;
        }
        return ok;
    }

    // head has the first 5 bytes of the contents.
    __device__ Status compressed(Block& b, uint32_t most, int64_t& huffman, int64_t tables[3], uint64_t head) {
        const int64_t end = at + b.src_size;
        int64_t p = at;
        if (end - p < 2) return corrupt;
        const uint32_t first = head & 255, form = first >> 2 & 3;
        b.literals_type = first & 3;
        if (b.literals_type <= rle_literals) {
            const int bytes = form & 1 ? 1 + (form + 1) / 2 : 1;
            if (end - p < bytes) return corrupt;
            b.literals = bytes == 1 ? first >> 3 : (uint32_t)(head & (1u << 8 * bytes) - 1) >> 4;
            b.literals_src_size = b.literals_type == raw_literals ? b.literals : 1;
            p += bytes;
        } else {
            const int bytes = form < 2 ? 3 : form + 2, bits = form < 2 ? 10 : form == 2 ? 14 : 18;
            if (end - p < bytes) return corrupt;
            const uint64_t v = (head & (1ull << 8 * bytes) - 1) >> 4;
            b.literals = v & ((1u << bits) - 1);
            b.literals_src_size = v >> bits & ((1u << bits) - 1);
            b.streams = form == 0 ? 1 : 4;
            p += bytes;
            if (b.literals_type == huffman_literals) huffman = counts.blocks;
            if (huffman < 0) return corrupt;
            b.huffman = counts.blocks - huffman;
        }
        if (b.literals > most || b.literals_src_size > end - p) return corrupt;
        b.literals_src = p - at;
        p += b.literals_src_size;

        if (end - p < 1) return corrupt;
        head = peek(p);
        uint32_t n = head & 255;
        const int bytes = n < 128 ? 1 : n < 255 ? 2 : 3;
        if (end - p < bytes) return corrupt;
        if (bytes == 2) n = (n - 128) * 256 + (head >> 8 & 255);
        if (bytes == 3) n = (uint32_t)(head >> 8 & 0xFFFF) + 0x7F00;
        p += bytes;
        b.sequences = n + 1;
        if (n == 0) return p == end ? ok : corrupt;
        if (b.literals + 3ll * n > most) return corrupt;
        if (end - p < 1) return corrupt;
        b.sequences_src = p - at;
        b.modes = head >> 8 * bytes & 255;
        if (b.modes & 3) return corrupt;
        for (int i = 0; i < 3; i++) {
            if ((b.modes >> (6 - 2 * i) & 3) != repeated) tables[i] = counts.blocks;
            if (tables[i] < 0) return corrupt;
            b.tables[i] = counts.blocks - tables[i];
        }
        return ok;
    }
};

// Counts the blocks, literals, sequences and windows of each item.
extern "C" __global__ void quiver_zstd_count(const uint8_t* src, const Item* items, Counts* counts, int64_t n) {
    const int64_t i = thread_index();
    if (i >= n) return;
    Scan scan = {src + items[i].src, items[i]};
    const Status status = scan.run();
    if (status != ok) scan.counts = {};
    else if (scan.counts.blocks > 0) scan.counts.windows = (min(scan.largest, items[i].dst_size) + 15) / window_bytes + 1;
    scan.counts.status = status;
    counts[i] = scan.counts;
}

// Fills in the blocks of each item from position starts[i] on.
extern "C" __global__ void quiver_zstd_scan(const uint8_t* src, const Item* items, const Counts* starts, Block* blocks, int64_t n) {
    const int64_t i = thread_index();
    if (i >= n || starts[i].status != ok) return;
    Scan scan = {src + items[i].src, items[i]};
    scan.item_index = i;
    scan.blocks = blocks + starts[i].blocks;
    scan.run();
    for (int64_t b = 0; b < scan.counts.blocks; b++) {
        scan.blocks[b].first_literal += starts[i].literals;
        scan.blocks[b].first_sequence += starts[i].sequences;
    }
}
