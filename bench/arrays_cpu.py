"""Operations of package ndview on this machine's CPU beside NumPy's.

Usage: arrays_cpu.py [--machine NAME] [--results FOLDER], run by `make
bench-arrays`. It builds the tests, runs the cases of BenchmarkArray, then has
NumPy do the same, and writes a result file.
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import array_records
import goresults
import record


def run(binary: Path, cases: str, *flags: str) -> dict[str, dict[str, float]]:
    """The figures of the cases, each the median of the rounds."""
    command = [str(binary), "-test.run=^$", f"-test.bench=^BenchmarkArray$/^cpu${cases}", "-test.timeout=40m", *flags]
    done = subprocess.run(command, cwd=record.ROOT / "ndview", capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return goresults.figures(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core", help="what result files call this machine")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    options = parser.parse_args()
    machine = record.machine({p: importlib.metadata.version(p) for p in ("numpy",)}, options.machine)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "ndview.test"
        subprocess.run(["go", "test", "-c", "-o", str(binary), "./ndview"], cwd=record.ROOT, check=True)
        figures = run(binary, "", "-test.benchtime=3x", "-test.count=3") | run(binary, "/^small$", "-test.benchtime=20000x", "-test.count=5")
    faults: list[str] = []
    records = array_records.records("cpu", figures, ["numpy"], {}, faults)
    print(record.write(options.results, "arrays", machine, {"passed": 0, "failed": 0, "skipped": 0}, records))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
