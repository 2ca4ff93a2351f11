"""Measures limits of the hardware with CuPy and CUDA events, in GB/s: bytes read plus
written on the device, bytes written, or bytes copied over the bus. Figures are medians
of 20 runs after 3 warm-up runs.
"""

import statistics

import cupy

COPY = 1 << 30


def seconds(work, runs: int = 20) -> float:
    """The median time of work on the current stream."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(runs):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        taken.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return statistics.median(taken)


def device_copy(moved: int = 2 * COPY) -> float:
    """The rate of a copy that reads and writes `moved` bytes in total, in whole vectors."""
    n = -(-moved // 32) * 16
    a, b = cupy.empty(n, cupy.uint8), cupy.empty(n, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    return 2 * n / seconds(lambda: b.data.copy_from_device_async(a.data, n, stream)) / 1e9


def device_fill(n: int = COPY) -> float:
    a = cupy.empty(n, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    return n / seconds(lambda: a.data.memset_async(1, n, stream)) / 1e9


def free() -> None:
    """Releases the memory that CuPy caches, for the next measurement."""
    cupy.get_default_memory_pool().free_all_blocks()


def bus_copy(to_device: bool) -> float:
    """The rate of copies between pinned host memory and the device."""
    host = cupy.cuda.alloc_pinned_memory(COPY)
    device = cupy.empty(COPY, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    copy = device.data.copy_from_host_async if to_device else device.data.copy_to_host_async
    return COPY / seconds(lambda: copy(host.ptr, COPY, stream)) / 1e9
