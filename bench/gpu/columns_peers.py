"""Measures the work of columns.py with CuPy for numbers and with pyarrow on the host
for strings. The number and the choice of elements are the same.

Usage: columns_peers.py. It prints one JSON object: per record, the method and GB/s of
the result.
"""

import json
import time

import cupy
import cupy_limits
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 1 << 26
TEXT = {"utf8-8": (ROWS, 8), "utf8-40": (ROWS // 2, 40), "utf8-1000": (ROWS // 64, 1000)}


def numbers(found: dict) -> None:
    a = cupy.random.randint(0, 1 << 30, ROWS, dtype=cupy.int32)
    at = cupy.random.randint(0, ROWS, ROWS, dtype=cupy.int32)
    mask = cupy.random.randint(0, 2, ROWS, dtype=cupy.int8).astype(bool)
    parts = [a[ROWS * k // 4 + 1 : ROWS * (k + 1) // 4] for k in range(4)]
    for name, work in (
        ("take", lambda: cupy.take(a, at)),
        ("filter", lambda: a[mask]),
        ("concatenate", lambda: cupy.concatenate(parts)),
    ):
        found[f"{name}-int32"] = {"how": "CuPy", "rate": work().nbytes / cupy_limits.seconds(work) / 1e9}


def compute(found: dict) -> None:
    """Arithmetic of float64 with nulls. CuPy has no nulls; its mask is an array of bools."""
    x = cupy.random.random(ROWS)
    y = cupy.random.random(ROWS)
    valid = cupy.random.randint(0, 2, ROWS, dtype=cupy.int8).astype(bool)
    for name, bytes_per_row, work in (
        ("multiply", 24, lambda: x * y),
        ("greater", 16, lambda: x > y),
        ("fill_null", 16, lambda: cupy.where(valid, x, 0.0)),
        ("sum", 8, lambda: float(cupy.where(valid, x, 0.0).sum())),
    ):
        rate = ROWS * bytes_per_row / cupy_limits.seconds(work) / 1e9
        found[f"compute-{name}"] = {"how": "CuPy, with a mask of bools for the nulls", "rate": rate}


def size(a: pa.Array) -> int:
    return sum(b.size for b in a.buffers() if b is not None)


def text(found: dict) -> None:
    rng = np.random.default_rng(1)
    for column, (rows, average) in TEXT.items():
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(rng.integers(0, 2 * average + 1, rows, dtype=np.int32), out=offsets[1:])
        letters = np.resize(rng.integers(97, 123, 1 << 24, dtype=np.uint8), offsets[-1])
        a = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
        at = pa.array(rng.integers(0, rows, rows, dtype=np.int32))
        mask = pa.array(rng.integers(0, 2, rows, dtype=np.int8).astype(bool))
        parts = [a.slice(rows * k // 4 + 1, rows * (k + 1) // 4 - rows * k // 4 - 1) for k in range(4)]
        for name, work in (
            ("take", lambda a=a, at=at: pc.take(a, at)),
            ("filter", lambda a=a, mask=mask: pc.filter(a, mask)),
            ("concatenate", lambda parts=parts: pa.concat_arrays(parts)),
        ):
            start = time.perf_counter()
            made = work()
            found[f"{name}-{column}"] = {"how": "pyarrow on the host", "rate": size(made) / (time.perf_counter() - start) / 1e9}


def main() -> None:
    found: dict[str, dict] = {}
    numbers(found)
    compute(found)
    text(found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
