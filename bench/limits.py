"""Measures the most that this machine can do in a conversion, and prints seconds.

Usage: limits.py INPUT OUTPUT CODEC CHUNK_ROWS

For codec none it writes the same bytes to the same number of files from memory, on all
cores. For zstd1, libzstd compresses the same chunks on all cores, without reading or
writing files.
"""

import concurrent.futures
import os
import sys
import time
from pathlib import Path

import numcodecs
import numpy as np
import pyarrow as pa


def chunks(source: Path, rows: int) -> list[np.ndarray]:
    """The columns, cut into chunks, in memory."""
    table = pa.ipc.open_file(source.open("rb")).read_all()
    return [
        column.slice(start, rows).combine_chunks().to_numpy(zero_copy_only=False)
        for column in table.columns
        for start in range(0, table.num_rows, rows)
    ]


def main() -> None:
    source, output, codec, rows = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    pieces = chunks(source, rows)
    output.mkdir(parents=True)
    cores = len(os.sched_getaffinity(0))

    def write(number: int) -> None:
        file = os.open(output / str(number), os.O_WRONLY | os.O_CREAT)
        os.write(file, pieces[number].view("u1"))
        os.close(file)

    zstd = numcodecs.Zstd(level=1)

    def compress(number: int) -> None:
        zstd.encode(pieces[number].view("u1"))

    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        start = time.perf_counter()
        list(pool.map(write if codec == "none" else compress, range(len(pieces))))
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
