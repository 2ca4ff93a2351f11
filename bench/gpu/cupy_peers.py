"""What CuPy does, and what the hardware allows, by CUDA events.

Usage: cupy_peers.py; prints one JSON object. Rates are GB/s of bytes read plus
written on the device, or carried over the bus; each is the median of 20 runs
after 3 to warm up.
"""

import json
import statistics

import cupy

BITMAP = 128 << 20  # bytes
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


def unpackbits(bitorder: str) -> float:
    """A bitmap to bytes of 0 and 1; little is Arrow's order."""
    bits = cupy.random.randint(0, 256, BITMAP, dtype=cupy.uint8)
    return 9 * BITMAP / seconds(lambda: cupy.unpackbits(bits, bitorder=bitorder)) / 1e9


def device_copy() -> float:
    a, b = cupy.empty(COPY, cupy.uint8), cupy.empty(COPY, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    return 2 * COPY / seconds(lambda: b.data.copy_from_device_async(a.data, COPY, stream)) / 1e9


def bus_copy(to_device: bool) -> float:
    """Between pinned host memory and the device."""
    host = cupy.cuda.alloc_pinned_memory(COPY)
    device = cupy.empty(COPY, cupy.uint8)
    stream = cupy.cuda.get_current_stream()
    copy = device.data.copy_from_host_async if to_device else device.data.copy_to_host_async
    return COPY / seconds(lambda: copy(host.ptr, COPY, stream)) / 1e9


def measure() -> dict[str, float]:
    return {
        "unpackbits_big": unpackbits("big"),
        "unpackbits_little": unpackbits("little"),
        "device_copy": device_copy(),
        "pinned_h2d": bus_copy(True),
        "pinned_d2h": bus_copy(False),
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
