"""Compares each routine in assembly with the Go loop that it replaces.

Usage: assembly_cpu.py [--machine NAME] [--results FOLDER], run by `make bench-assembly`.
It runs the Go benchmarks BenchmarkAssembly... and writes a result file. A routine stays
in assembly if it is at least 1.3 times as fast as Go; the exit code is 1 if one is not.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import record

ROUNDS = 6
LEAST = 1.3
ARRAYS = "ndview/internal/"
PACKAGES = [ARRAYS + name for name in ("cpu", "cpu/elementwise", "cpu/reduce", "cpu/equal", "bitmap", "half")] + ["compress/gzip"]
LINE = re.compile(r"^BenchmarkAssembly(\S+?)/(asm|asm512|go)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", re.MULTILINE)


def run(package: str) -> dict[str, dict[str, float]]:
    """The least microseconds of each routine by side: asm, asm512 (AVX-512) and go."""
    command = ["go", "test", f"./{package}", "-run=^$", "-bench=^BenchmarkAssembly", f"-count={ROUNDS}", "-benchtime=30ms", "-timeout=30m"]
    done = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    found: dict[str, dict[str, float]] = {}
    for name, side, ns in LINE.findall(done.stdout):
        sides = found.setdefault(name.strip("/"), {})
        sides[side] = min(sides.get(side, float("inf")), float(ns) / 1e3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="the name of this machine in result files")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    options = parser.parse_args()
    machine = record.machine({"go": record.output_of("go", "env", "GOVERSION")}, options.machine)
    records, slow = [], []
    for package in PACKAGES:
        for name, sides in run(package).items():
            for side in ("asm", "asm512"):
                if side not in sides or "go" not in sides:
                    continue
                title = f"assembly-{package.removeprefix(ARRAYS)}-{name}{'-avx512' if side == 'asm512' else ''}".replace("/", "-").lower()
                command = f"go test ./{package} -bench 'Assembly.*{name.rpartition('/')[2]}'"
                records.append(record.record(title, "us", sides[side], command, peer="the Go loop", peer_value=sides["go"]))
                print(f"{title:60} {sides['go'] / sides[side]:6.2f}")
                if sides["go"] < LEAST * sides[side]:
                    slow.append(title)
    print(record.write(options.results, "assembly", machine, records))
    if slow:
        print(f"less than {LEAST} times as fast as Go:", ", ".join(slow))
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
