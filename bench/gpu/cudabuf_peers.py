"""Measures the operations of the cudabuf benchmarks with other libraries.

Usage: cudabuf_peers.py {cupy|torch|rmm}. It prints one JSON object. Each library runs
in its own process, so that no library holds memory while another is measured. Copies of
1 GiB are in GB/s, memory is the memory held over the peak in use, and all else is in
microseconds. Figures are medians of several rounds, in the library's best form.
"""

import importlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable

import alloctrace
import numpy as np

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
DEPTH = 1000  # operations enqueued per synchronization
ROUNDS = 31
SIZES = {"1KiB": KIB, "64KiB": 64 * KIB, "1024KiB": MIB}
THREADS = 16
TRACE = {"allocations": 1_000_000, "live": 4 * GIB}


def microseconds(work: Callable[[], object], each: int = DEPTH, wait: Callable[[], object] = lambda: None) -> float:
    """The median time of work, which is called `each` times per wait."""
    taken = []
    for _ in range(ROUNDS + 3):
        start = time.perf_counter()
        for _ in range(each):
            work()
        wait()
        taken.append((time.perf_counter() - start) / each * 1e6)
    return statistics.median(taken[3:])


def gigabytes(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """The rate of a copy of 1 GiB."""

    def once() -> None:
        work()
        wait()

    taken = []
    for _ in range(8):
        start = time.perf_counter()
        once()
        taken.append(time.perf_counter() - start)
    return GIB / statistics.median(taken[2:]) / 1e9


def in_threads(work: Callable[[], object], each: int = 5000) -> dict[str, float]:
    """Measures work in 16 concurrent threads: the time per call over all threads, and
    the time per call in one thread."""
    totals = []
    for _ in range(5):
        start_line = threading.Barrier(THREADS + 1)

        def run() -> None:
            work()
            start_line.wait()
            for _ in range(each):
                work()

        threads = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        start_line.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        totals.append(time.perf_counter() - start)
    total = statistics.median(totals) * 1e6
    return {"alloc_free_16": total / each / THREADS, "alloc_free_16_each": total / each}


def fragmentation(new_pool: Callable[[], tuple[Callable, Callable, Callable[[], int]]]) -> dict[str, float]:
    """The peak of memory held, and that held at the end, over the peak in use. new_pool
    returns functions that allocate, free, and return the memory held."""
    found = {}
    for sizes in (alloctrace.UNIFORM, alloctrace.MIXED):
        alloc, free, held = new_pool()
        most = 0

        def watch() -> None:
            nonlocal most
            most = max(most, held())

        peak = alloctrace.run(1, sizes, alloc=alloc, free=free, watch=watch, **TRACE)
        found[f"held_{sizes}"] = max(most, held()) / peak
        found[f"held_{sizes}_end"] = held() / peak
    return found


def cupy_figures() -> dict[str, float]:
    import cupy

    host = np.ones(GIB, np.uint8)
    device = cupy.empty(GIB, cupy.uint8)
    null = cupy.cuda.Stream.null
    found = {
        "h2d_pageable": max(
            gigabytes(lambda: device.set(host), null.synchronize),
            gigabytes(lambda: device.data.copy_from_host(host.ctypes.data, GIB), null.synchronize),
        ),
        "d2h_pageable": max(
            gigabytes(lambda: device.get(out=host), null.synchronize),
            gigabytes(lambda: device.data.copy_to_host(host.ctypes.data, GIB), null.synchronize),
        ),
    }
    for name, size in SIZES.items():
        small, part = cupy.empty(size, cupy.uint8), np.ones(size, np.uint8)
        found[f"h2d_{name}"] = microseconds(lambda: small.set(part), 10, null.synchronize)
        found[f"d2h_{name}"] = microseconds(lambda: small.get(out=part), 10, null.synchronize)
    del host, device

    pinned = cupy.cuda.alloc_pinned_memory(GIB)
    device = cupy.empty(GIB, cupy.uint8)
    found["h2d_pinned"] = gigabytes(lambda: device.data.copy_from_host_async(pinned.ptr, GIB, null), null.synchronize)
    found["d2h_pinned"] = gigabytes(lambda: device.data.copy_to_host_async(pinned.ptr, GIB, null), null.synchronize)
    del pinned, device

    x, y, out = (cupy.zeros(1024, cupy.float32) for _ in range(3))
    found["launch"] = microseconds(lambda: cupy.add(x, y, out=out), DEPTH, null.synchronize)

    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    event = cupy.cuda.Event(disable_timing=True)

    def record_and_wait() -> None:
        event.record(first)
        second.wait_event(event)

    found["event"] = microseconds(record_and_wait, DEPTH, second.synchronize)
    found["stream"] = microseconds(lambda: cupy.cuda.Stream(non_blocking=True), 10)

    pool = cupy.cuda.MemoryPool()
    found["alloc_free_1"] = microseconds(lambda: pool.malloc(MIB))  # freed where it is dropped
    found |= in_threads(lambda: pool.malloc(MIB))
    asynchronous = cupy.cuda.MemoryAsyncPool()
    found["alloc_async"] = microseconds(lambda: asynchronous.malloc(MIB), 100, null.synchronize)

    def new_pool() -> tuple[Callable, Callable, Callable[[], int]]:
        pool = cupy.cuda.MemoryPool()
        # The trace holds the last reference to the memory.
        return pool.malloc, lambda pointer, size: pointer.mem.free(), pool.total_bytes

    return found | fragmentation(new_pool)


def torch_figures() -> dict[str, float]:
    import torch

    cuda, wait = torch.device("cuda"), torch.cuda.synchronize
    torch.set_grad_enabled(False)
    host = torch.ones(GIB, dtype=torch.uint8)
    device = torch.empty(GIB, dtype=torch.uint8, device=cuda)
    found = {
        "h2d_pageable": gigabytes(lambda: device.copy_(host), wait),
        "d2h_pageable": gigabytes(lambda: host.copy_(device), wait),
    }
    for name, size in SIZES.items():
        small, part = device[:size], host[:size]
        found[f"h2d_{name}"] = microseconds(lambda: small.copy_(part), 10, wait)
        found[f"d2h_{name}"] = microseconds(lambda: part.copy_(small), 10, wait)
    x, y, out = (torch.zeros(1024, device=cuda) for _ in range(3))
    found["launch"] = microseconds(lambda: torch.add(x, y, out=out), DEPTH, wait)

    first, second, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()

    def record_and_wait() -> None:
        event.record(first)
        second.wait_event(event)

    found["event"] = microseconds(record_and_wait, DEPTH, second.synchronize)
    found["stream"] = microseconds(torch.cuda.Stream, 10)
    # torch.empty is faster than the functions of the allocator.
    found["alloc_free_1"] = microseconds(lambda: torch.empty(MIB, dtype=torch.uint8, device=cuda))
    found |= in_threads(lambda: torch.empty(MIB, dtype=torch.uint8, device=cuda))
    alloc, free = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    del host, device, x, y, out

    def new_pool() -> tuple[Callable, Callable, Callable[[], int]]:
        torch.cuda.empty_cache()
        return alloc, lambda pointer, size: free(pointer), torch.cuda.memory_reserved

    return found | fragmentation(new_pool)


def rmm_figures() -> dict[str, float]:
    import rmm.mr
    from rmm.pylibrmm.stream import DEFAULT_STREAM as stream

    def new_pool() -> tuple[Callable, Callable, Callable[[], int]]:
        pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=MIB)
        return (lambda size: pool.allocate(size, stream)), (lambda p, size: pool.deallocate(p, size, stream)), pool.pool_size

    alloc, free, _ = new_pool()
    found = {"alloc_free_1": microseconds(lambda: free(alloc(MIB), MIB))}
    found |= in_threads(lambda: free(alloc(MIB), MIB))
    return found | fragmentation(new_pool)


PEERS = {"cupy": cupy_figures, "torch": torch_figures, "rmm": rmm_figures}

if __name__ == "__main__":
    name = sys.argv[1]
    importlib.import_module(name)
    print(json.dumps(PEERS[name]()))
