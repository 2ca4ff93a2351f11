#!/usr/bin/env python3
"""Writes cast_value.json.gz: single values that cast-value-rs casts, for TestCastValueMatchesReference.

    pip install cast-value-rs==0.5.1 numpy && python make_cast.py

A case is [from, to, rounding, out_of_range, input, output] with elements in hexadecimal.
The output is null for an error.
"""

import gzip
import json
from pathlib import Path

import numpy as np
from cast_value_rs import cast_array

MODES = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
FLOATS = [0.0, -0.0, 0.5, 1.5, -2.5, 2.4999, 0.1, -0.1, 127.5, -128.5, 255.4, 255.5, 300.7, -1.2, 65519.0, 65520.0, 16777217.0, 2.0**31 - 0.5,
          2.0**63, -(2.0**63), 2.0**64, 1e20, -1e20, 3.4028235677973366e38, 1e40, -1e40, 1e-40, 1e-46, 6e-8, 2.98e-8, float("inf"), float("-inf"), float("nan")]
INTS = [0, 1, -1, 127, 128, 255, 256, 300, -128, -129, 2049, 2051, 65519, 65520, 16777217, 16777219, -16777217, 2**31 - 1, -(2**31),
        2**53 + 1, 2**53 + 3, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63 + 1, 2**64 - 1]
CASES = []


def add(value: np.ndarray, to: str, rounding: str, out_of_range: str | None) -> None:
    try:
        out = cast_array(value, target_dtype=np.dtype(to), rounding_mode=rounding, out_of_range_mode=out_of_range, scalar_map_entries=None).tobytes().hex()
    except ValueError:
        out = None
    CASES.append([value.dtype.name, to, rounding, out_of_range or "", value.tobytes().hex(), out])


def main() -> None:
    types = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
    for source in types:
        values = []
        for x in INTS + ([] if source[0] != "f" else FLOATS):
            try:
                with np.errstate(all="ignore"):
                    values.append(np.array([x], dtype=source))
            except OverflowError:
                pass
        for to in types:
            if to == source:
                continue
            ranges = [None, "clamp"] + (["wrap"] if to[0] != "f" else [])
            for value in values:
                for i, mode in enumerate(MODES if "float" in (source[:5], to[:5]) else MODES[:1]):
                    for out_of_range in ranges if i == 0 else ranges[:1]:
                        add(value, to, mode, out_of_range)
    lines = ",\n".join(json.dumps(case) for case in CASES)
    (Path(__file__).parent / "cast_value.json.gz").write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))


main()
