"""The topic arrays: operations of package ndview on a GPU, in the bytes that
they read and write a second, beside CuPy and PyTorch and the driver's own copy
and memset."""

import functools

import array_cases
import array_records
import cudabuf
import cupy_limits
import gobench
from gobench import record


def records() -> tuple[list[dict], list[str]]:
    faults: list[str] = []
    figures = gobench.run("ndview", "^BenchmarkArray$/^cuda$", "-test.benchtime=10x", rounds=2, seconds=280)
    limits = {"copy": limit_of(cupy_limits.device_copy), "fill": limit_of(cupy_limits.device_fill)}
    try:
        launch = cudabuf.plain_c()["launch"]
        limits["launch"] = lambda _: launch
    except Exception as e:  # the other figures are still worth having
        faults.append(f"C: {e}")
    small = gobench.run("ndview", "^BenchmarkArray$/^cuda$/^small$", "-test.benchtime=20000x", rounds=5)
    found = array_records.records("cuda", figures | small, ["cupy", "torch"], limits, faults)
    return found + first_uses(), faults


def limit_of(measure) -> array_records.Limit:
    """A limit for work on so many bytes, measured once for each number of them."""

    @functools.cache
    def limit(moved: int) -> float:
        try:
            return measure(moved)
        finally:
            cupy_limits.free()

    return limit


def first_uses() -> list[dict]:
    """What the first call of operations takes, the slower of two processes."""
    figures = gobench.run("ndview", "^BenchmarkFirstUse$", "-test.benchtime=1x", rounds=1)
    again = gobench.run("ndview", "^BenchmarkFirstUse$", "-test.benchtime=1x", rounds=1)
    found = []
    for name, units in figures.items():
        operation = name.removeprefix("FirstUse/")
        command = f"go test ./ndview -bench '{name}$' -benchtime 1x"
        title = "first-" + array_cases.slug(operation)
        found.append(record.record(title, "us", max(units["us/first"], again[name]["us/first"]), command))
    return found
