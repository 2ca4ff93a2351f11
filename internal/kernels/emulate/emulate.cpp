// Runs the copy kernels on a CPU, under sanitizers. Every thread of a block is a fiber,
// which runs until it waits for others. Destination and shared memory have exactly the
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
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda.h"

Index threadIdx, blockIdx, blockDim;
constexpr size_t most_shared = 227 << 10, stack = 256 << 10;
alignas(256) unsigned char dynamic_shared[most_shared];

namespace {

using Kernel = void(uint8_t* dst, const uint8_t* src, const void* plan);

struct Fiber {
    ucontext_t context;
    std::vector<char> memory = std::vector<char>(stack);
    bool done = false;
};

// A barrier of some threads, which combines their predicates.
struct Barrier {
    int arrived = 0, passed = 0;
    bool all = true, any = false, was_all = true, was_any = false;
};

std::vector<Fiber> fibers;
ucontext_t scheduler;
int current, running;
bool moved;  // whether a thread ended or reached a barrier since this was last cleared
Barrier of_block, of_warp[32];
uint32_t offered[32][32];
char name[64];
Kernel* kernel;
uint8_t* destination;
const uint8_t* source;
const void* plan;

void wait(Barrier& b, int threads, bool truth = true) {
    b.all &= truth, b.any |= truth, moved = true;
    if (++b.arrived == threads) {
        b.was_all = b.all, b.was_any = b.any;
        b.arrived = 0, b.passed++, b.all = true, b.any = false;
        return;
    }
    for (const int turn = b.passed, me = current; b.passed == turn;) {
        swapcontext(&fibers[me].context, &scheduler);
        threadIdx.x = me;
    }
}

void run_thread() {
    kernel(destination, source, plan);
    fibers[current].done = moved = true;
}

void run_block(int threads) {
    fibers.resize(threads);
    running = blockDim.x = threads;
    for (int i = 0; i < threads; i++) {
        Fiber& f = fibers[i];
        f.done = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.memory.data();
        f.context.uc_stack.ss_size = f.memory.size();
        f.context.uc_link = &scheduler;
        makecontext(&f.context, run_thread, 0);
    }
    for (bool waiting = true; waiting;) {
        waiting = moved = false;
        for (int i = 0; i < threads; i++) {
            if (fibers[i].done) continue;
            waiting = true;
            current = threadIdx.x = i;
            swapcontext(&scheduler, &fibers[i].context);
        }
        if (waiting && !moved) {
            fprintf(stderr, "%s: deadlock in block %u: %d threads are at __syncthreads\n", name, blockIdx.x, of_block.arrived);
            exit(4);
        }
    }
}

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

void __syncthreads() { wait(of_block, running); }
int __syncthreads_and(int truth) { return wait(of_block, running, truth), of_block.was_all; }
int __syncthreads_or(int truth) { return wait(of_block, running, truth), of_block.was_any; }

uint32_t exchange(uint32_t value, int lane) {
    const int warp = current / 32;
    offered[warp][current % 32] = value;
    wait(of_warp[warp], 32);
    const uint32_t result = offered[warp][lane & 31];
    wait(of_warp[warp], 32);
    return result;
}

int main() {
    char digits[1 << 13];
    long blocks, threads, shared, dst, before_dst, src, before_src;
    while (scanf("%63s %ld %ld %ld %8191s %ld %ld %ld %ld", name, &blocks, &threads, &shared, digits, &dst, &before_dst, &src, &before_src) == 9) {
        getchar();
        std::string bytes;
        for (size_t i = 0; digits[i]; i += 2) bytes += (char)std::stoi(std::string(digits + i, 2), nullptr, 16);
        alignas(16) char aligned[sizeof digits / 2];
        memcpy(aligned, bytes.data(), bytes.size());
        kernel = reinterpret_cast<Kernel*>(dlsym(RTLD_DEFAULT, name));
        if (!kernel) return fprintf(stderr, "no kernel %s\n", name), 2;
        const long rounded = (src + word - 1) / word * word;
        uint8_t *to = allocate(dst, 0xEE), *from = allocate(rounded, 0);
        if (fread(from, 1, src, stdin) != (size_t)src) return 2;
        bar(to, before_dst, 8);
        bar(from, before_src, word);
        ASAN_UNPOISON_MEMORY_REGION(dynamic_shared, most_shared);
        ASAN_POISON_MEMORY_REGION(dynamic_shared + shared, most_shared - shared);
        destination = to + before_dst, source = from + before_src, plan = aligned;
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
            memset(dynamic_shared, 0x5A, shared);  // the contents that the previous block left
            run_block(threads);
        }
        ASAN_UNPOISON_MEMORY_REGION(to, dst);
        fwrite(to, 1, dst, stdout);
        fflush(stdout);
        release(to, dst);
        release(from, rounded);
    }
}
