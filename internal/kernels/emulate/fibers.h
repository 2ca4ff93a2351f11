// Runs a kernel on a CPU: see fibers.cpp.

#pragma once
#include <cstddef>
#include <functional>

constexpr size_t most_shared = 227 << 10;

// Runs one block; blockIdx is set.
void run_block(const char* kernel_name, int threads, std::function<void()> run);
