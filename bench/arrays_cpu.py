"""Operations of package ndview on this machine's CPU beside NumPy's.

Usage: arrays_cpu.py [--machine NAME] [--results FOLDER] [--only KIND], run by
`make bench-arrays`. It builds the tests, has the cases of BenchmarkArray and
NumPy take turns, and writes a result file; of one kind of case alone it only
prints what it found.

A machine gets slower and faster while it is measured. So all cases of one side
are followed by all of the other, TURNS times. Where that leaves in doubt who is
ahead, case by case, each has MORE turns in a row and then the other, ROWS times, the
closest first, as long as LIMIT allows; the first turn of such a row does not count,
since a process of ours begins with it. A turn is the mean of RUNS runs after some to
warm up, a figure the median of all turns. All of this is the same for both sides; a
record has the number of turns.
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
RUNS = 3  # of a turn
CLOSE = 1.1  # times as fast
LIMIT = 300  # seconds for turns of cases that are in doubt

PREFIX = "Array/cpu/"
# The seconds of a run in each turn, by case.
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
    """Whether the slowest turn of the faster side is close to the fastest of the
    other, or beyond it: be it that they are alike, or that turns are uneven."""
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
            print(f"{len(doubtful) - done} cases that are in doubt have no more turns: close what else is running, and measure again")
            break
        for _ in range(ROWS):
            quiver.row(ours, name)
            numpy.row(theirs, name)
    return ours, theirs


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="what result files call this machine")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    parser.add_argument("--only", default="", metavar="KIND", help="a kind of case as array_cases.py lists them: print, write nothing")
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
