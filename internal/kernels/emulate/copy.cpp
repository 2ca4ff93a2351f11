// Runs the copy kernels on a CPU, under sanitizers. Destination and shared memory have exactly the
// launch's sizes; the source extends to the words of 16 bytes that it lies in, as kernels
// read whole words. An access outside ends this program with a report, and so does a
// barrier that some threads never reach.
//
// Standard input has launches, each a line and the bytes of the source:
//
//	KERNEL BLOCKS THREADS SHARED PLAN DST BEFORE SRC BEFORE
//
// PLAN is the plan's struct in hexadecimal digits. DST and SRC are sizes in bytes. The
// first BEFORE bytes of each precede the kernel's pointer and must not be accessed.
// Standard output gets the bytes of each destination; bytes that the kernel did not write
// are 0xEE.

#include <dlfcn.h>
#include <sanitizer/asan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda.h"
#include "fibers.h"

namespace {

using Kernel = void(uint8_t* dst, const uint8_t* src, const void* plan);

constexpr long word = 16;

uint8_t* allocate(long bytes, int filler) {
    void* p = nullptr;
    if (posix_memalign(&p, 256, bytes)) exit(3);
    return static_cast<uint8_t*>(memset(p, filler, bytes));
}

// Makes the bytes before a kernel's pointer inaccessible.
void bar(uint8_t* p, long bytes, long unit) { ASAN_POISON_MEMORY_REGION(p, bytes / unit * unit); }

void release(uint8_t* p, long bytes) {
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    free(p);
}

}  // namespace

int main() {
    char name[64], digits[1 << 13];
    long blocks, threads, shared, dst, before_dst, src, before_src;
    while (scanf("%63s %ld %ld %ld %8191s %ld %ld %ld %ld", name, &blocks, &threads, &shared, digits, &dst, &before_dst, &src, &before_src) == 9) {
        getchar();
        std::string bytes;
        for (size_t i = 0; digits[i]; i += 2) bytes += (char)std::stoi(std::string(digits + i, 2), nullptr, 16);
        alignas(16) char aligned[sizeof digits / 2];
        memcpy(aligned, bytes.data(), bytes.size());
        const auto kernel = reinterpret_cast<Kernel*>(dlsym(RTLD_DEFAULT, name));
        if (!kernel) return fprintf(stderr, "no kernel %s\n", name), 2;
        const long rounded = (src + word - 1) / word * word;
        uint8_t *to = allocate(dst, 0xEE), *from = allocate(rounded, 0);
        if (fread(from, 1, src, stdin) != (size_t)src) return 2;
        bar(to, before_dst, 8);
        bar(from, before_src, word);
        ASAN_UNPOISON_MEMORY_REGION(dynamic_shared, most_shared);
        ASAN_POISON_MEMORY_REGION(dynamic_shared + shared, most_shared - shared);
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
            memset(dynamic_shared, 0x5A, shared);  // the contents that the previous block left
            run_block(name, threads, [&] { kernel(to + before_dst, from + before_src, aligned); });
        }
        ASAN_UNPOISON_MEMORY_REGION(to, dst);
        fwrite(to, 1, dst, stdout);
        fflush(stdout);
        release(to, dst);
        release(from, rounded);
    }
}
