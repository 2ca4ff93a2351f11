// The threads of a block as fibers of one CPU thread. Each runs until it waits for others.
// A barrier that some threads never reach ends the program with a report.

#include "fibers.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda.h"

Index threadIdx, blockIdx, blockDim, gridDim = {1, 1};
alignas(256) unsigned char dynamic_shared[most_shared];

namespace {

constexpr size_t stack_bytes = 256 << 10;

// The registers that a function call preserves lie on the stack of a fiber that waits.
extern "C" void switch_stack(void** from, void* to);
asm(R"(
.globl switch_stack
switch_stack:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");

struct Fiber {
    void* stack;
    std::vector<char> memory = std::vector<char>(stack_bytes);
    bool done = false;
};

// A barrier of some threads, which combines their predicates.
struct Barrier {
    int arrived = 0, passed = 0;
    bool all = true, any = false, was_all = true, was_any = false;
};

std::vector<Fiber> fibers;
void* scheduler;
int current, running;
bool moved;  // whether a thread ended or reached a barrier since this was last cleared
Barrier of_block, of_warp[32], named[16];
uint32_t offered[32][32];
const char* name;
std::function<void()> kernel;

void wait(Barrier& b, int threads, bool truth = true) {
    b.all &= truth, b.any |= truth, moved = true;
    if (++b.arrived == threads) {
        b.was_all = b.all, b.was_any = b.any;
        b.arrived = 0, b.passed++, b.all = true, b.any = false;
        return;
    }
    for (const int turn = b.passed, me = current; b.passed == turn;) {
        switch_stack(&fibers[me].stack, scheduler);
        threadIdx.x = me;
    }
}

void run_thread() {
    kernel();
    Fiber& me = fibers[current];
    me.done = moved = true;
    for (;;) switch_stack(&me.stack, scheduler);
}

}  // namespace

void run_block(const char* kernel_name, int threads, std::function<void()> run) {
    name = kernel_name, kernel = std::move(run);
    fibers.resize(threads);
    running = blockDim.x = threads;
    for (Fiber& f : fibers) {
        f.done = false;
        void** top = (void**)((uintptr_t)(f.memory.data() + f.memory.size()) & ~(uintptr_t)63);
        *--top = nullptr;  // so that the stack is aligned as after a call
        *--top = (void*)run_thread;
        for (int i = 0; i < 6; i++) *--top = nullptr;
        f.stack = top;
    }
    for (bool waiting = true; waiting;) {
        waiting = moved = false;
        for (int i = 0; i < threads; i++) {
            if (fibers[i].done) continue;
            waiting = true;
            current = threadIdx.x = i;
            switch_stack(&scheduler, fibers[i].stack);
        }
        if (waiting && !moved) {
            fprintf(stderr, "%s: deadlock in block %u: %d threads are at __syncthreads\n", name, blockIdx.x, of_block.arrived);
            exit(4);
        }
    }
}

void __syncthreads() { wait(of_block, running); }
int __syncthreads_and(int truth) { return wait(of_block, running, truth), of_block.was_all; }
int __syncthreads_or(int truth) { return wait(of_block, running, truth), of_block.was_any; }
void __syncwarp(unsigned) { wait(of_warp[current / 32], 32); }
void sync_threads(int barrier, int threads) { wait(named[barrier], threads); }

uint32_t exchange(uint32_t value, int lane) {
    const int warp = current / 32;
    offered[warp][current % 32] = value;
    wait(of_warp[warp], 32);
    const uint32_t result = offered[warp][lane & 31];
    wait(of_warp[warp], 32);
    return result;
}

unsigned __ballot_sync(unsigned, int truth) {
    const int warp = current / 32;
    offered[warp][current % 32] = truth != 0;
    wait(of_warp[warp], 32);
    unsigned result = 0;
    for (int i = 0; i < 32; i++) result |= offered[warp][i] << i;
    wait(of_warp[warp], 32);
    return result;
}
