"""Measures the work of arrow.py with CuPy and pyarrow: 1 GiB in 64 columns, a quarter
each of integers, doubles with nulls, floats and strings.

Usage: arrow_peers.py. It prints one JSON object: per record, the method and its median
GB/s, in the fastest form.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cupy
import cupyx
import numpy as np
import pyarrow as pa

COLUMNS, BATCHES = 64, 16
ROWS = (1 << 30) // COLUMNS // 7 // BATCHES  # per batch; four columns take 28 bytes and a bit per row
ROUNDS = 3


def wide_batch(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(1)
    offsets = pa.py_buffer(np.arange(0, 4 * rows + 1, 4, dtype=np.int32))
    columns: list[pa.Array] = []
    for _ in range(COLUMNS // 4):
        valid = pa.py_buffer(rng.integers(0, 256, rows // 8 + 1, dtype=np.uint8))
        columns += [
            pa.array(rng.integers(0, 1 << 60, rows)),
            pa.Array.from_buffers(pa.float64(), rows, [valid, pa.py_buffer(rng.random(rows))]),
            pa.array(rng.random(rows, np.float32)),
            pa.Array.from_buffers(pa.string(), rows, [None, offsets, pa.py_buffer(rng.integers(97, 123, 4 * rows, dtype=np.uint8))]),
        ]
    return pa.record_batch(columns, [f"c{i}" for i in range(COLUMNS)])


def buffers(batch: pa.RecordBatch) -> list[np.ndarray]:
    return [np.frombuffer(b, np.uint8) for column in batch.columns for b in column.buffers() if b is not None]


def upload(batch: pa.RecordBatch) -> list[cupy.ndarray]:
    """Copies each buffer to its own memory of CuPy's pool."""
    there = []
    for b in buffers(batch):
        one = cupy.empty(b.size, np.uint8)
        one.set(b)
        there.append(one)
    return there


def pinned(batch: pa.RecordBatch) -> list[np.ndarray]:
    """Copies the buffers to pinned memory."""
    kept = []
    for b in buffers(batch):
        one = cupyx.empty_pinned(b.size, np.uint8)
        one[:] = b
        kept.append(one)
    return kept


def upload_pinned(host: list[np.ndarray]) -> list[cupy.ndarray]:
    """Like upload, but does not wait between copies."""
    there = []
    for b in host:
        one = cupy.empty(b.size, np.uint8)
        one.data.copy_from_host_async(b.ctypes.data, b.size, cupy.cuda.Stream.null)
        there.append(one)
    return there


def rate(size: int, work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        kept = work()
        cupy.cuda.Stream.null.synchronize()
        taken.append(time.perf_counter() - start)
        del kept
    return size / statistics.median(taken[1:]) / 1e9


def read(path: Path, mapped: bool) -> list:
    """Reads every batch of the file and uploads its buffers."""
    with (pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))) as source:
        with pa.ipc.open_file(source) as file:
            return [upload(file.get_batch(i)) for i in range(file.num_record_batches)]


def write(path: Path, batches: list[list[cupy.ndarray]], like: pa.RecordBatch) -> None:
    """Copies the buffers to the host, and pyarrow writes them."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, like.schema) as file:
        for there in batches:
            host = iter(there)
            columns = [
                pa.Array.from_buffers(c.type, len(c), [None if b is None else pa.py_buffer(next(host).get()) for b in c.buffers()])
                for c in like.columns
            ]
            file.write_batch(pa.record_batch(columns, schema=like.schema))


def best(forms: dict[str, float]) -> dict:
    how = max(forms, key=forms.__getitem__)
    return {"how": how, "rate": forms[how]}


def main() -> None:
    batch = wide_batch(ROWS)
    size = BATCHES * sum(b.size for b in buffers(batch))
    with tempfile.TemporaryDirectory(prefix="quiver-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = Path(folder) / "wide.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
            for _ in range(BATCHES):
                file.write_batch(batch)
        forms = {"pyarrow read, CuPy upload": False, "pyarrow mapped, CuPy upload": True}
        found = {"ipc-read": best({how: rate(size, lambda mapped=mapped: read(path, mapped)) for how, mapped in forms.items()})}
        there = [upload(batch) for _ in range(BATCHES)]
        found["ipc-write"] = best({"CuPy get, pyarrow write": rate(size, lambda: write(path, there, batch))})
        del there
    wide = wide_batch(BATCHES * ROWS)
    whole = sum(b.size for b in buffers(wide))
    found["copyto"] = best({"CuPy, buffer by buffer": rate(whole, lambda: upload(wide))})
    host = pinned(wide)
    found["copyto-pinned"] = best({"CuPy, buffer by buffer": rate(whole, lambda: upload_pinned(host))})
    del host
    there = upload(wide)
    found["tohost"] = best({"CuPy, buffer by buffer": rate(whole, lambda: [one.get() for one in there])})
    print(json.dumps(found))
    print(f"{size} bytes in files, {whole} in a batch", file=sys.stderr)


if __name__ == "__main__":
    main()
