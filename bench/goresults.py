"""Parses the output of Go benchmarks."""

import re
import statistics

# BenchmarkAllocFree/cuda-16   100   1000 ns/op   4000.00 MB/s   7 ns/each
LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$", re.MULTILINE)


def rounds(printed: str) -> dict[str, dict[str, list[float]]]:
    """The values of all rounds, by the benchmark's name without "Benchmark" and by
    unit."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, values in LINE.findall(printed):
        fields = values.split()
        for value, unit in zip(fields[::2], fields[1::2], strict=True):
            found.setdefault(name, {}).setdefault(unit, []).append(float(value))
    return found


def figures(printed: str) -> dict[str, dict[str, float]]:
    """The median of all rounds, by name and unit."""
    return {name: {unit: statistics.median(v) for unit, v in units.items()} for name, units in rounds(printed).items()}
