"""Measures the most memory that arrow2zarr takes for inputs that are much larger than
--max-memory, and records it in bench/results.

Usage: memory.py [--gib 10] [--mib 256] [--only TEXT] [--machine NAME] [--results FOLDER]
                 [--scratch FOLDER] [--output FOLDER]

Streams come through a pipe, and cost no disk. Files have holes where their values are
zeros. The peak is VmHWM of the process. The run fails if one is over the limit.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import record

ARROW2ZARR = str(record.ROOT / "bin" / "arrow2zarr")


class Holes:
    """A file that is written, in which large runs of zeros take no disk."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb", buffering=0)
        self.closed = False

    def write(self, data: pa.Buffer | bytes) -> int:
        view = np.frombuffer(data, np.uint8)
        if view.size >= 1 << 20 and not any(view[i : i + (1 << 24)].any() for i in range(0, view.size, 1 << 24)):
            self.file.seek(view.size, os.SEEK_CUR)
        else:
            for start in range(0, view.size, 1 << 30):  # the most that one call of the system writes
                self.file.write(view[start : start + (1 << 30)])
        return view.size

    def flush(self) -> None: ...

    def tell(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        if not self.closed:
            self.file.truncate()
            self.file.close()
            self.closed = True


def columns(count: int, rows: int) -> pa.RecordBatch:
    """Columns of small whole numbers, which compress well."""
    values = pa.array(np.arange(rows, dtype=np.float64) % 100)
    return pa.record_batch({f"c{i}": values for i in range(count)})


def mixed(rows: int) -> pa.RecordBatch:
    number = np.arange(rows)
    return pa.record_batch({"id": number % 1000, "value": pa.array((number % 100).astype(np.float64), mask=number % 10 == 0), "name": pa.array(["name"]).take(pa.array(number * 0))})


def dictionary(values: int, rows: int) -> pa.RecordBatch:
    texts = pa.array([f"value {i}" for i in range(values)])
    indices = pa.array((np.arange(rows) % values).astype(np.int32))
    return pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, texts), "e": pa.DictionaryArray.from_arrays(indices, texts)})


def nested(rows: int) -> pa.RecordBatch:
    offsets = pa.array(np.arange(0, 4 * rows + 1, 4, dtype=np.int32))
    number = np.arange(4 * rows)
    items = pa.StructArray.from_arrays([pa.array((number % 100).astype(np.float32)), pa.array(["a", "bc", "def"]).take(pa.array(number % 3))], ["x", "s"])
    return pa.record_batch({"items": pa.ListArray.from_arrays(offsets, items)})


def stream(batch: pa.RecordBatch) -> Callable[[Path, int], Iterator[pa.RecordBatch]]:
    """The batch again and again, until it has size bytes."""

    def batches(_folder: Path, size: int) -> Iterator[pa.RecordBatch]:
        for _ in range(max(1, size // batch.nbytes)):
            yield batch

    return batches


def one_batch(folder: Path, size: int) -> Path:
    """A file of one batch of zeros."""
    rows = size // 64
    zeros = folder / "zeros"
    with zeros.open("wb") as f:
        f.truncate(rows * 8)
    values = pa.Array.from_buffers(pa.float64(), rows, [None, pa.py_buffer(np.memmap(zeros, np.uint8, "r"))])
    batch = pa.record_batch({f"c{i}": values for i in range(8)})
    path = folder / "input.arrow"
    sink = Holes(path)
    with pa.ipc.new_file(pa.PythonFile(sink, "w"), batch.schema) as w:
        w.write_batch(batch)
    sink.close()
    zeros.unlink()
    return path


def parquet(count: int, group: int) -> Callable[[Path, int], Path]:
    def write(folder: Path, size: int) -> Path:
        path = folder / "input.parquet"
        batch = columns(count, group)
        with pq.ParquetWriter(path, batch.schema, write_statistics=False) as w:
            for _ in range(max(1, size // batch.nbytes)):
                w.write_batch(batch)
        return path

    return write


@dataclass
class Case:
    name: str
    make: Callable[[Path, int], Iterator[pa.RecordBatch] | Path]
    scale: float = 1  # of the size


CASES = [
    Case("stream", stream(mixed(1 << 20))),
    Case("one-batch", one_batch),
    Case("wide", stream(columns(2000, 1000)), 0.25),
    Case("dictionary", stream(dictionary(200_000, 1 << 20))),
    Case("nested", stream(nested(1 << 17))),
    Case("parquet", parquet(10, 1 << 20)),
    Case("parquet-wide", parquet(3000, 2000), 0.05),
]


def peak_of(process: subprocess.Popen) -> int:
    """Waits for the end of a process, and returns the most memory that it had."""
    most = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        most = max([most] + [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")])
        time.sleep(0.02)
    return most


def feed(process: subprocess.Popen, batches: Iterator[pa.RecordBatch]) -> None:
    """Writes a stream to a process."""
    first = next(batches)
    with process.stdin, pa.ipc.new_stream(pa.PythonFile(process.stdin, "w"), first.schema) as w:
        w.write_batch(first)
        for batch in batches:
            w.write_batch(batch)


def run(case: Case, folder: Path, output: Path, size: int, limit: int) -> tuple[int, float]:
    for path in (folder, output):
        shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True)
    source = case.make(folder, int(size * case.scale))
    piped = not isinstance(source, Path)
    command = [ARROW2ZARR, "convert", "-" if piped else str(source), str(output), "--device", "cpu", "--no-progress", "--max-memory", f"{limit}MiB"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE if piped else None, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if piped:
        feeding = threading.Thread(target=feed, args=(process, source))
        feeding.start()
    most = peak_of(process)
    if piped:
        feeding.join()
    if process.returncode:
        sys.exit(f"{case.name}: exit code {process.returncode}: {process.stderr.read().decode()}")
    shutil.rmtree(folder)
    shutil.rmtree(output)
    return most, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=10, help="size of an input; wide ones have less")
    parser.add_argument("--mib", type=int, default=256, help="--max-memory")
    parser.add_argument("--only", default="", help="only cases with this in their name; nothing is recorded")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench" / "results")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/quiver-memory"))
    parser.add_argument("--output", type=Path, default=Path("/dev/shm/quiver-memory.zarr"))
    options = parser.parse_args()
    records, over = [], []
    for case in CASES:
        if options.only not in case.name:
            continue
        most, seconds = run(case, options.scratch, options.output, int(options.gib * (1 << 30)), options.mib)
        entry = record.record(
            f"peak-memory-{case.name}", "MiB", most / (1 << 20), f"arrow2zarr convert --max-memory {options.mib}MiB", limit="--max-memory",
            limit_value=options.mib, gib=options.gib * case.scale, seconds=round(seconds, 1),
        )  # fmt: skip
        records.append(entry)
        print(f"{case.name:14} {options.gib * case.scale:5.1f} GiB  peak {most >> 20:4} MiB of {options.mib}  {seconds:6.1f} s", flush=True)
        if most > options.mib << 20:
            over.append(case.name)
    if not options.only:
        print(record.write(options.results, "memory", record.machine({"pyarrow": pa.__version__}, options.machine), records))
    if over:
        print("over the limit:", ", ".join(over))
    return len(over)


if __name__ == "__main__":
    sys.exit(main())
