"""Compares operations of package ndview on this machine's CPU with NumPy's.

Usage: arrays_cpu.py [--machine NAME] [--results FOLDER] [--only KIND], run by
`make bench-arrays`. It builds the tests, measures the cases of BenchmarkArray and of
NumPy alternately, and writes a result file. With --only it prints the figures instead.

The speed of a machine varies during a measurement. So all cases of one side alternate
with all cases of the other, TURNS times. If it is then unclear which side is faster in
a case, both sides get ROWS rows of MORE further turns each, the closest cases first,
until LIMIT is reached. The first turn of a row does not count, since our process starts
with it. A turn is the mean of RUNS runs after warm-up runs; a figure is the median of
all turns. Both sides are measured alike, and a record has the number of turns.
"""

import argparse
import importlib.metadata
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import array_peers
import array_records
import goresults
import record

TURNS, MORE, ROWS = 3, 2, 4
RUNS = 3  # per turn
CLOSE = 1.1  # the ratio below which cases are close
LIMIT = 300  # seconds for further turns

PREFIX = "Array/cpu/"
# Seconds per run of each turn, by case.
Turns = dict[str, list[float]]


class Quiver:
    """The benchmarks of package ndview."""

    def __init__(self, binary: Path):
        self.binary = binary

    def turn(self, turns: Turns, pattern: str) -> None:
        found = self.run(pattern, RUNS)
        if any(name.startswith("small/") for name in found):
            found |= self.run("^small$" + pattern[pattern.find("/") :] * ("/" in pattern), 5000 * RUNS)
        for name, seconds in found.items():
            turns.setdefault(name, []).extend(seconds)

    def row(self, turns: Turns, name: str) -> None:
        pattern = "/".join(f"^{part}$" for part in name.split("/"))
        found = self.run(pattern, 5000 * RUNS if name.startswith("small/") else RUNS, 1 + MORE)
        turns[name].extend(found[name][1:])

    def run(self, pattern: str, runs: int, count: int = 1) -> Turns:
        bench = [f"-test.bench=^BenchmarkArray$/^cpu$/{pattern}", f"-test.benchtime={runs}x", f"-test.count={count}"]
        command = [str(self.binary), "-test.run=^$", "-test.timeout=40m", *bench]
        done = subprocess.run(command, cwd=record.ROOT / "ndview", capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        rounds = goresults.rounds(done.stdout)
        return {name.removeprefix(PREFIX): [ns / 1e9 for ns in units["ns/op"]] for name, units in rounds.items()}


class NumPy:
    def __init__(self):
        self.library = array_peers.NumPy("numpy")

    def turn(self, turns: Turns, names: list[str]) -> None:
        for name in names:
            if seconds := array_peers.measure(self.library, name, RUNS):
                turns.setdefault(name, []).append(statistics.mean(seconds))

    def row(self, turns: Turns, name: str) -> None:
        found: Turns = {}
        for _ in range(1 + MORE):
            self.turn(found, [name])
        turns[name].extend(found[name][1:])


def in_doubt(ours: list[float], theirs: list[float]) -> bool:
    """Whether the turns of both sides overlap or nearly overlap, because the sides are
    similar or the turns vary."""
    return max(ours) * CLOSE > min(theirs) and max(theirs) * CLOSE > min(ours)


def apart(ours: list[float], theirs: list[float]) -> float:
    return abs(math.log(statistics.median(ours) / statistics.median(theirs)))


def take_turns(binary: Path, pattern: str) -> tuple[Turns, Turns]:
    ours: Turns = {}
    theirs: Turns = {}
    quiver, numpy = Quiver(binary), NumPy()
    for i in range(TURNS):
        quiver.turn(ours, pattern)
        numpy.turn(theirs, list(ours))
        print(f"turn {i + 1} of {len(ours)} cases is done", flush=True)
    doubtful = sorted((name for name in theirs if in_doubt(ours[name], theirs[name])), key=lambda name: apart(ours[name], theirs[name]))
    end = time.monotonic() + LIMIT
    for done, name in enumerate(doubtful):
        if time.monotonic() > end:
            print(f"{len(doubtful) - done} unclear cases got no further turns: stop other programs and measure again")
            break
        for _ in range(ROWS):
            quiver.row(ours, name)
            numpy.row(theirs, name)
    return ours, theirs


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="the name of this machine in result files")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    parser.add_argument("--only", default="", metavar="KIND", help="measure only this kind of case (see array_cases.py), and print instead of writing")
    options = parser.parse_args()
    machine = record.machine({p: importlib.metadata.version(p) for p in ("numpy", "ml_dtypes")}, options.machine)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "ndview.test"
        subprocess.run(["go", "test", "-c", "-o", str(binary), "./ndview"], cwd=record.ROOT, check=True)
        ours, theirs = take_turns(binary, f"^{options.only}$" if options.only else ".")
    others: dict[str, dict[str, float]] = {"NumPy": {}, "NumPy with ml_dtypes": {}}
    for name, turns in theirs.items():
        others["NumPy with ml_dtypes" if "bfloat16" in name else "NumPy"][name] = statistics.median(turns)
    records = array_records.records("cpu", {name: statistics.median(turns) for name, turns in ours.items()}, others, {})
    for found, turns in zip(records, ours.values(), strict=True):
        found["turns"] = len(turns)
    if options.only:
        for r in records:
            peer = f"{r['peer']} {r['peer_value']:.4f} ratio {r['ratio']}" if "peer" in r else "no peer"
            print(f"{r['name']:60} {r['value']:9.4f} {r['unit']:4} {peer} turns {r['turns']}")
        return 0
    print(record.write(options.results, "arrays", machine, records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
