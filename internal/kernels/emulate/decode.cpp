// Runs the kernels of compress on a CPU, under sanitizers. Every buffer has exactly its
// size, rounded up to the words of 16 bytes that kernels read; an access outside ends this
// program with a report.
//
// Standard input has launches, each a line and then the bytes of its buffers:
//
//	KERNEL BLOCKS THREADS ARGUMENT...
//
// An argument is "=" and a number, or the size of a buffer in bytes. Standard output gets
// the bytes of all buffers.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <vector>

#include "cuda.h"
#include "fibers.h"

using Kernel = void(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string name, word;
        unsigned blocks, threads;
        words >> name >> blocks >> threads;
        const auto kernel = reinterpret_cast<Kernel*>(dlsym(RTLD_DEFAULT, name.c_str()));
        if (!kernel) return std::cerr << "no kernel " << name << "\n", 2;
        uint64_t a[12] = {};
        std::vector<std::pair<uint8_t*, size_t>> buffers;
        for (int i = 0; i < 12 && words >> word; i++) {
            if (word[0] == '=') {
                a[i] = std::stoull(word.substr(1));
                continue;
            }
            const size_t size = std::stoull(word), rounded = (size + 15) / 16 * 16;
            void* p = nullptr;
            if (posix_memalign(&p, 256, rounded)) return 3;
            memset(p, 0xEE, rounded);
            if (!std::cin.read((char*)p, size)) return 2;
            a[i] = (uint64_t)p;
            buffers.push_back({(uint8_t*)p, size});
        }
        gridDim.x = blocks;
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
            memset(dynamic_shared, 0xEE, most_shared);  // nothing lies there at first
            run_block(name.c_str(), threads, [&] { kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]); });
        }
        for (auto [p, size] : buffers) std::cout.write((char*)p, size), free(p);
        std::cout.flush();
    }
}
