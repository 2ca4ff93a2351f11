"""Generates the random sequence of allocations of the pool benchmarks, by the rules of
the Go package cudabuf/internal/pool/trace."""

from collections.abc import Callable, Iterator

MASK = (1 << 64) - 1
UNIFORM, MIXED = "uniform", "mixed"


def splitmix64(state: int) -> Iterator[int]:
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def run(seed: int, sizes: str, allocations: int, live: int, alloc: Callable[[int], object],
        free: Callable[[object, int], None], watch: Callable[[], None] = lambda: None) -> int:  # fmt: skip
    """Replays a trace and returns the peak of live bytes. free is called with a result
    of alloc and its size; watch is called periodically."""
    random = splitmix64(seed)
    blocks: list[tuple[object, int]] = []
    used = level = peak = 0
    for i in range(allocations):
        if i % 65536 == 0:
            level = live // 2 + next(random) % (live // 2)
        if sizes == UNIFORM:
            e = 9 + next(random) % 17
        elif next(random) % 100 < 95:
            e = 9 + next(random) % 7
        else:
            e = 20 + next(random) % 6
        size = (1 << e) + next(random) % (1 << e)
        while used + size > level and blocks:
            j = next(random) % len(blocks)
            block, n = blocks[j]
            blocks[j] = blocks[-1]
            blocks.pop()
            free(block, n)
            used -= n
        blocks.append((alloc(size), size))
        used += size
        peak = max(peak, used)
        if i % 1024 == 0:
            watch()
    watch()
    while blocks:
        free(*blocks.pop())
    return peak
