"""Compares record batches and IPC files on the CPU device with arrow-go itself.

Usage: arrow_cpu.py [--machine NAME] [--results FOLDER], run by `make bench-arrow`. It
runs Go benchmarks and writes a result file.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import goresults
import record

ROUNDS = 5
# Record, unit, package, our benchmark, benchmarks of arrow-go.
CASES = [
    ("cpu-copyto", "us", "arrowbuf", "CopyToCPU/quiver", {"arrow-go": "CopyToCPU/arrow-go-share", "arrow-go, a copy of each column": "CopyToCPU/arrow-go-copy"}),
    ("cpu-ipc-read", "GB/s", "arrowbuf/arrowipc", "IPCReadCPU/quiver", {"arrow-go": "IPCReadCPU/arrow-go"}),
]


def run(package: str, names: set[str]) -> dict[str, dict[str, float]]:
    command = ["go", "test", f"./{package}", "-run=^$", f"-bench=^Benchmark({'|'.join(sorted(names))})$", f"-count={ROUNDS}", "-benchtime=0.5s"]
    done = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return goresults.figures(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="the name of this machine in result files")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    options = parser.parse_args()
    machine = record.machine({"go": record.output_of("go", "env", "GOVERSION")}, options.machine)
    names: dict[str, set[str]] = {}
    for _, _, package, ours, _ in CASES:
        names.setdefault(package, set()).add(ours.partition("/")[0])
    figures = {package: run(package, of) for package, of in names.items()}
    records = []
    for name, unit, package, ours, others in CASES:

        def value(benchmark: str, unit: str = unit, units: dict = figures[package]) -> float:
            return units[benchmark]["ns/op"] / 1e3 if unit == "us" else units[benchmark]["MB/s"] / 1e3

        peers = {peer: round(value(benchmark), 4) for peer, benchmark in others.items()}
        best = (min if unit in record.COSTS else max)(peers, key=peers.__getitem__)
        command = f"go test ./{package} -bench '{ours.replace('/', '$/')}$'"
        records.append(record.record(name, unit, value(ours), command, peer=best, peer_value=peers[best], peers=peers))
        print(records[-1])
    print(record.write(options.results, "arrow", machine, records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
