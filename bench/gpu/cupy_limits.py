"""What the hardware allows, measured through CuPy by CUDA events: GB/s, of bytes
read plus written on the device, of bytes written, or of bytes carried over the
bus. Each is the median of 20 runs after 3 to warm up.
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
    """Of a copy that reads and writes as many bytes together, in whole vectors."""
    n = -(-moved // 32) * 16
    a, b = cupy.empty(n, cupy.uint8), cupy.empty(n, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    return 2 * n / seconds(lambda: b.data.copy_from_device_async(a.data, n, stream)) / 1e9


def device_fill(n: int = COPY) -> float:
    a = cupy.empty(n, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    return n / seconds(lambda: a.data.memset_async(1, n, stream)) / 1e9


def free() -> None:
    """Gives memory back that CuPy keeps, for what measures next."""
    cupy.get_default_memory_pool().free_all_blocks()


def bus_copy(to_device: bool) -> float:
    """Between pinned host memory and the device."""
    host = cupy.cuda.alloc_pinned_memory(COPY)
    device = cupy.empty(COPY, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    copy = device.data.copy_from_host_async if to_device else device.data.copy_to_host_async
    return COPY / seconds(lambda: copy(host.ptr, COPY, stream)) / 1e9
