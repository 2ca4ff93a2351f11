"""Measures pyarrow and CuPy: they map a file in shared memory that another process
wrote, read its batch of 64 columns and 1 GiB, and copy it to the GPU.

Usage: share_peers.py. It prints one JSON object: the median in microseconds, which
excludes writing the file.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

COLUMNS, SIZE, ROUNDS = 64, 1 << 30, 5


def write(path: str) -> None:
    rows = SIZE // COLUMNS // 8
    batch = pa.record_batch([pa.array(np.zeros(rows, np.int64)) for _ in range(COLUMNS)], [f"c{i}" for i in range(COLUMNS)])
    with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, batch.schema) as out:
        out.write_batch(batch)


def get(path: str) -> float:
    import cupy

    there = [cupy.empty(SIZE // COLUMNS, np.uint8) for _ in range(COLUMNS)]  # so that allocation is not measured
    start = time.perf_counter()
    with pa.memory_map(path) as f:
        batch = pa.ipc.open_file(f).get_batch(0)
        for column, to in zip(batch.columns, there, strict=True):
            to.set(np.frombuffer(column.buffers()[1], np.uint8))
        cupy.cuda.Device().synchronize()
        return (time.perf_counter() - start) * 1e6


def main() -> None:
    if len(sys.argv) > 1:
        write(sys.argv[1])
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "batch.arrow")
        subprocess.run([sys.executable, __file__, path], check=True)
        print(json.dumps({"us": statistics.median(get(path) for _ in range(ROUNDS))}))


if __name__ == "__main__":
    main()
