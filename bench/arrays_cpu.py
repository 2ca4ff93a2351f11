"""Operations of package ndview on this machine's CPU beside NumPy's.

Usage: arrays_cpu.py [--machine NAME] [--results FOLDER], run by `make
bench-arrays`. It builds the tests, runs the cases of BenchmarkArray, then has
NumPy do the same, and writes a result file.
"""

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import array_records
import record

LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="what result files call this machine")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    options = parser.parse_args()
    machine = record.machine({p: importlib.metadata.version(p) for p in ("numpy",)}, options.machine)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "ndview.test"
        subprocess.run(["go", "test", "-c", "-o", str(binary), "./ndview"], cwd=record.ROOT, check=True)
        command = [str(binary), "-test.run=^$", "-test.bench=^BenchmarkArray$/^cpu$", "-test.benchtime=5x", "-test.timeout=40m"]
        done = subprocess.run(command, cwd=record.ROOT / "ndview", capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:])
        return 1
    figures = {name: {"ns/op": float(ns)} for name, ns in LINE.findall(done.stdout)}
    faults: list[str] = []
    records = array_records.records("cpu", figures, ["numpy"], {}, faults)
    print(record.write(options.results, "arrays", machine, {"passed": 0, "failed": 0, "skipped": 0}, records))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
