"""Compares how arrow2zarr and pyarrow read Parquet files, and records the result.

Usage: parquet_cpu.py TEST_BINARY [--only TEXT] [--rounds 5] [--mib 256] [--machine NAME]
                      [--results FOLDER] [--scratch FOLDER]

TEST_BINARY is the compiled test of package arrowzarr. Its benchmark reads the record
batches of a file as convert does, and drops them. pyarrow's side is read_table with as
many threads. Files lie on a RAM disk. Both sides take turns; the medians count.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import goresults
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import record
import table_inputs

Columns = Callable[[np.random.Generator, int], pa.Table]


def floats(rng: np.random.Generator, size: int) -> pa.Table:
    rows = size // 64
    return pa.table({f"f{i}": np.round(rng.normal(12, 9, rows), 4) for i in range(8)})


def repeated(rng: np.random.Generator, size: int) -> pa.Table:
    rows = size // 64
    return pa.table({f"f{i}": np.round(rng.normal(12, 9, rows), 1) for i in range(8)})


def integers(rng: np.random.Generator, size: int) -> pa.Table:
    rows = size // 64
    return pa.table({f"i{i}": pa.array(rng.integers(0, 1 << 40, rows), mask=rng.random(rows) < 0.1) for i in range(8)})


def small_integers(rng: np.random.Generator, size: int) -> pa.Table:
    rows = size // 32
    return pa.table({f"i{i}": pa.array(rng.integers(0, 5000, rows).astype(np.int32), mask=rng.random(rows) < 0.1) for i in range(8)})


def names(rng: np.random.Generator, size: int) -> pa.Table:
    rows = size // 64
    return pa.table({f"s{i}": table_inputs.texts(rng, rows, 1) for i in range(4)})


def stations(rng: np.random.Generator, size: int) -> pa.Table:
    values = table_inputs.texts(rng, 5000, 1)
    rows = size // 64
    return pa.table({f"s{i}": values.take(pa.array(rng.integers(0, 5000, rows))) for i in range(4)})


def mixed(rng: np.random.Generator, size: int) -> pa.Table:
    """Measurements: a time, an id, a station, values and a flag."""
    rows = size // 64
    values = table_inputs.texts(rng, 500, 1)
    return pa.table(
        {
            "time": pa.array(np.arange(rows) * 1_000_000 + rng.integers(0, 1000, rows)).cast(pa.timestamp("us", "UTC")),
            "id": rng.integers(0, 1 << 30, rows).astype(np.int64),
            "station": values.take(pa.array(rng.integers(0, 500, rows))),
            "temperature": pa.array(np.round(rng.normal(12, 9, rows), 1), mask=rng.random(rows) < 0.02),
            "pressure": np.round(rng.normal(1013, 9, rows), 2).astype(np.float32),
            "valid": rng.random(rows) < 0.9,
            "count": rng.integers(0, 100, rows).astype(np.int16),
        }
    )


def repeat(batch: Callable[[np.random.Generator], pa.RecordBatch]) -> Columns:
    def table(rng: np.random.Generator, size: int) -> pa.Table:
        batches = [batch(rng)]
        while sum(b.nbytes for b in batches) < size:
            batches.append(batch(rng))
        return pa.Table.from_batches(batches)

    return table


# Name, columns, compression, and whether dictionaries are used.
CASES: list[tuple[str, Columns, str, bool]] = [
    ("floats-plain-none", floats, "none", False),
    ("floats-plain-snappy", floats, "snappy", False),
    ("floats-plain-zstd", floats, "zstd", False),
    ("floats-dictionary-snappy", repeated, "snappy", True),
    ("nullable-ints-snappy", integers, "snappy", False),
    ("nullable-ints-dictionary-zstd", small_integers, "zstd", True),
    ("text-plain-snappy", names, "snappy", False),
    ("text-plain-zstd", names, "zstd", False),
    ("text-dictionary-snappy", stations, "snappy", True),
    ("mixed-snappy", mixed, "snappy", True),
    ("mixed-zstd", mixed, "zstd", True),
    ("list-snappy", repeat(table_inputs.list_batch), "snappy", True),
    ("list-struct-zstd", repeat(table_inputs.struct_batch), "zstd", True),
]


def ours(binary: Path, path: Path) -> float:
    """Seconds of the best of three reads, in a process of their own."""
    environment = os.environ | {"QUIVER_BENCH_PARQUET": str(path)}
    done = subprocess.run([binary, "-test.run=^$", "-test.bench=^BenchmarkReadParquet$", "-test.benchtime=1x", "-test.count=3"], env=environment, capture_output=True, text=True)
    rounds = goresults.rounds(done.stdout)
    if done.returncode or not rounds:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return min(rounds["ReadParquet"]["ns/op"]) / 1e9


def theirs(path: Path) -> float:
    """Seconds of the best of three reads, in a process of their own."""
    code = (
        "import sys, time, pyarrow.parquet as pq\n"
        "def read():\n start = time.perf_counter(); t = pq.read_table(sys.argv[1], use_threads=True); return time.perf_counter() - start\n"
        "print(min(read() for _ in range(3)))"
    )
    return float(subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=Path)
    parser.add_argument("--only", default="", help="only cases with this in their name; nothing is recorded")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=256, help="size of the columns in memory")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench" / "results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm/quiver-parquet"))
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    records = []
    try:
        for name, columns, compression, dictionary in CASES:
            if options.only not in name:
                continue
            table = columns(np.random.default_rng(24), options.mib << 20)
            size, path = table.nbytes, options.scratch / f"{name}.parquet"
            pq.write_table(table, path, compression=compression, use_dictionary=dictionary)
            del table
            times: list[tuple[float, float]] = [(ours(options.binary.resolve(), path), theirs(path)) for _ in range(options.rounds)]
            path.unlink()
            rates = [size / statistics.median(t) / 1e9 for t in zip(*times, strict=True)]
            records.append(
                record.record(
                    f"parquet-read-{name}", "GB/s", rates[0], f"arrowzarr.test -test.bench=ReadParquet of {name}", peer="pyarrow.parquet.read_table",
                    peer_value=rates[1], bytes=size, rounds=options.rounds,
                )
            )  # fmt: skip
            print(f"{name:32} {rates[0]:7.3f} GB/s  pyarrow {rates[1]:7.3f}  ratio {rates[0] / rates[1]:5.2f}", flush=True)
    finally:
        shutil.rmtree(options.scratch, ignore_errors=True)
    print(f"median ratio {statistics.median(r['ratio'] for r in records):.2f}")
    if not options.only:
        print(record.write(options.results, "parquet", record.machine({"pyarrow": pa.__version__}, options.machine), records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
