"""The topic arrays: operations of package ndview on a GPU, in bytes read and written
per second. The peers are CuPy and PyTorch; the limits are the driver's copy and
memset."""

from statistics import median

import array_cases
import array_records
import cudabuf
import cupy_limits
import gobench
from gobench import record

PREFIX = "Array/cuda/"


def records() -> tuple[list[dict], list[str]]:
    faults: list[str] = []
    figures = measured("")
    limits = {"fill": fastest(cupy_limits.device_fill, figures)}
    # CPU speed varies from second to second, so both sides alternate.
    turns, launches = [], []
    for _ in range(5):
        turns.append(gobench.run("ndview", "^BenchmarkArray$/^cuda$/^small$", "-test.benchtime=20000x", rounds=5))
        try:
            launches.append(cudabuf.plain_c("launch")["launch"])
        except Exception as e:  # the other figures remain useful
            faults.append(f"C: {e}")
            break
    small = {name: {"ns/op": median(turn[name]["ns/op"] for turn in turns if name in turn)} for name in set().union(*turns)}
    if launches:
        limits["launch"] = lambda _: median(launches)
    return beside_others(figures | small, limits, faults) + first_uses(), faults


def permutations() -> tuple[list[dict], list[str]]:
    """The topic permutations: only the cases that copy transposed arrays."""
    faults: list[str] = []
    return beside_others(measured("^(permute|arbitrary)$"), {}, faults), faults


def measured(kinds: str) -> dict[str, dict[str, float]]:
    """Runs the cases whose kinds match a regular expression."""
    return gobench.run("ndview", "^BenchmarkArray$/^cuda$" + (f"/{kinds}" if kinds else ""), "-test.benchtime=10x", rounds=2, seconds=280)


def beside_others(figures: dict[str, dict[str, float]], limits: dict, faults: list[str]) -> list[dict]:
    limits = limits | {"copy": fastest(cupy_limits.device_copy, figures)}
    times = {name.removeprefix(PREFIX): units["ns/op"] / 1e9 for name, units in figures.items() if name.startswith(PREFIX)}
    return array_records.records("cuda", times, array_records.peers(["cupy", "torch"], list(times), faults), limits)


def fastest(measure, figures: dict) -> array_records.Limit:
    """The best rate that measure reaches with at most the bytes of a case. A single size
    would not do: the addresses of its buffers change the rate by a tenth."""
    best, found = 0.0, {}
    for n in sorted({array_cases.parse(name.removeprefix(PREFIX)).bytes for name in figures if name.startswith(PREFIX)}):
        best = max(best, measure(n))
        found[n] = best
        cupy_limits.free()
    return found.__getitem__


def first_uses() -> list[dict]:
    """The duration of the first call of operations, the slower of two processes."""
    figures = gobench.run("ndview", "^BenchmarkFirstUse$", "-test.benchtime=1x", rounds=1)
    again = gobench.run("ndview", "^BenchmarkFirstUse$", "-test.benchtime=1x", rounds=1)
    found = []
    for name, units in figures.items():
        operation = name.removeprefix("FirstUse/")
        command = f"go test ./ndview -bench '{name}$' -benchtime 1x"
        title = "first-" + array_cases.slug(operation)
        found.append(record.record(title, "us", max(units["us/first"], again[name]["us/first"]), command))
    return found
