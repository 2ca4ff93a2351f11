"""Prints the table of array operations as Markdown from recorded results.

Usage: arrays_table.py GPU.json... CPU.json, files of bench/results. If several files
have a record of one name, the last counts. A cell has the minimum of its row, rounded
down, and the median.
"""

import json
import math
import sys
from pathlib import Path
from statistics import median

# Titles of the rows, and the words that begin the names of their records.
ROWS = [
    ("transposed copies, 2 to 4 axes", ["permute"]),
    ("the same, odd extents of 1- and 2-byte elements", ["permute-odd"]),
    ("the same, of skinny shapes", ["permute-skinny"]),
    ("the same, of random extents", ["arbitrary"]),
    ("strided gathers and scatters", ["strided"]),
    ("casts, all pairs of numeric dtypes", ["astype"]),
    ("add, multiply, less, where, negative, sqrt", [f"elemwise-{op}" for op in ("add", "multiply", "less", "where", "negative", "sqrt")]),
    ("sin, exp of float32", ["elemwise-sin", "elemwise-exp"]),
    ("sum", ["reduce-sum"]),
    ("max", ["reduce-max"]),
    ("argmax", ["reduce-argmax"]),
    ("AllEqual and Equal", ["equal"]),
    ("Fill and Zeros (of the driver's memset)", ["fill"]),
    ("bitmaps to bytes and back", ["bits"]),
    ("Take at random indices", ["take"]),
    ("Concatenate", ["concatenate"]),
    ("Compress, NonZero, FillWhere", ["compress", "nonzero", "fillwhere"]),
    ("ByteSwap, Triu", ["byteswap", "triu"]),
]


def row_of(name: str) -> str:
    """The words that assign a record to a row."""
    words = name.removeprefix("cpu-").split("-")
    if words[0] == "permute":
        odd = words[1] == "odd"
        shape = [int(extent) for extent in words[2 + odd].split("x")]
        # Shapes that are not skinny have similar extents on all axes.
        whole = max(shape) < 20 * min(shape) and (len(shape) < 4 or shape[0] == shape[1])
        words[1] = "odd" if odd and whole else "" if whole else "skinny"
    elif words[0] != "elemwise" and words[0] != "reduce":
        words[1] = ""
    return "-".join(w for w in words[:2] if w)


def cell(values: list[float], unit: str) -> str:
    return f"{math.floor(round(min(values) * 1e6) / 1e4) / 100:.2f}{unit} / {median(values):.2f}{unit}" if values else "-"


def main(*paths: Path) -> None:
    *gpu, cpu_records = (json.loads(path.read_text())["records"] for path in paths)
    gpu_records = list({r["name"]: r for records in gpu for r in records}.values())
    for title, names in ROWS:
        here, there = ([r for r in records if row_of(r["name"]) in names] for records in (gpu_records, cpu_records))
        if not here and not there:
            continue
        shares, peers = [r["share"] for r in here if "share" in r], [r["ratio"] for r in here if "ratio" in r]
        print(f"| {title} | {len(here)} | {cell(shares, '')} | {cell(peers, 'x')} | {cell([r['ratio'] for r in there], 'x')} |")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
