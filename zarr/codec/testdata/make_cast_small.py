#!/usr/bin/env python3
"""Writes cast_small.json.gz: casts to and from floats of at most 8 bits, for
TestCastValueToSmallFloatsMatchesExactArithmetic.

    pip install ml_dtypes numpy && python make_cast_small.py

A case is [from, to, rounding, out_of_range, input, output] with elements in hexadecimal.
The output is null for an error. Numbers are those of ml_dtypes. They are rounded here, by
searching all numbers of the type with exact arithmetic; to nearest, ml_dtypes agrees for float32.
"""

import gzip
import json
import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np

MODES = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
TYPES = ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
BITS = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
CASES = []


class Type:
    def __init__(self, name: str):
        self.name, self.dtype = name, np.dtype(getattr(ml_dtypes, name))
        with np.errstate(all="ignore"):
            numbers = np.arange(1 << BITS.get(name, 8), dtype="u1").view(self.dtype).astype("f8")
        self.infinity = {float(x): code for code, x in enumerate(numbers) if math.isinf(x)}
        self.nan = int(np.array([np.nan], "f4").astype(self.dtype).view("u1")[0]) if np.isnan(numbers).any() else None
        self.zero = {math.copysign(1, x): code for code, x in enumerate(numbers) if x == 0}
        finite = sorted((Fraction(float(x)), code) for code, x in enumerate(numbers) if math.isfinite(x) and not (x == 0 and math.copysign(1, x) < 0))
        top = 2 * finite[-1][0] - finite[-2][0]  # where the next number would be
        parity = finite[-1][1] & 1 ^ 1
        self.table = [(-top, parity), *finite, (top, parity)]
        self.numbers = numbers

    def round(self, x: float, mode: str, clamp: bool) -> int | None:
        """The encoding, or None for an error."""
        last = len(self.table) - 1
        if math.isinf(x):
            if x in self.infinity:
                return self.infinity[x]
            at = 0 if x < 0 else last
        else:
            exact = Fraction(x)
            below = [i for i, (number, _) in enumerate(self.table) if number <= exact]
            above = [i for i, (number, _) in enumerate(self.table) if number >= exact]
            low, high = below[-1] if below else 0, above[0] if above else last
            from_low, from_high = exact - self.table[low][0], self.table[high][0] - exact
            if low == high:
                at = low
            elif mode == "towards-positive" or mode == "towards-zero" and x < 0:
                at = high
            elif mode in ("towards-negative", "towards-zero"):
                at = low
            elif from_low != from_high:
                at = low if from_low < from_high else high
            elif mode == "nearest-away":
                at = high if x > 0 else low
            else:
                at = low if self.table[low][1] & 1 == 0 else high
        if at in (0, last):
            if not clamp:
                return None
            sign = -1.0 if at == 0 else 1.0
            return self.infinity.get(sign * math.inf, self.table[1 if at == 0 else last - 1][1])
        if self.table[at][0] == 0:
            return self.zero.get(math.copysign(1, x), self.zero[1.0])
        return self.table[at][1]


def inputs(rng: np.random.Generator, to: Type) -> np.ndarray:
    numbers = np.array([float(number) for number, _ in to.table])
    middles = (numbers[1:] + numbers[:-1]) / 2
    some = np.concatenate([rng.choice(numbers, 12), rng.choice(middles, 12), np.nextafter(rng.choice(middles, 6), np.inf), rng.normal(size=6) * numbers[-1], [0, -0.0, 1e-30, -1e-30, np.inf, -np.inf, np.nan, 3e38, numbers[-2], numbers[-1], middles[-1], middles[0]]])
    return some.astype("f8")


def main() -> None:
    rng = np.random.default_rng(3)
    types = [Type(name) for name in TYPES]
    for to in types:
        for x in inputs(rng, to):
            for source in ("float64", "float32"):
                value = np.array([x], source)
                for mode in MODES:
                    for out_of_range in ("", "clamp"):
                        number = float(value[0])
                        code = to.nan if math.isnan(number) else to.round(number, mode, out_of_range == "clamp")
                        CASES.append([source, to.name, mode, out_of_range, value.tobytes().hex(), None if code is None else f"{code:02x}"])
                        if source == "float32" and mode == "nearest-even" and code is not None and not math.isnan(number) and out_of_range == "":
                            assert value.astype(to.dtype).view("u1")[0] == code, (to.name, number, code)
        for x in [0, 1, -1, 2, 3, 5, 6, 7, 9, 17, 100, 447, 464, 465, -240, 2**62, 2**63 - 1, -(2**63)]:
            for mode in MODES:
                code = to.round(x, mode, True)
                CASES.append(["int64", to.name, mode, "clamp", np.int64(x).tobytes().hex(), f"{code:02x}"])
    for source in types:
        for code, x in enumerate(source.numbers):
            CASES.append([source.name, "float64", "nearest-even", "", f"{code:02x}", np.float64(np.nan if math.isnan(x) else x).tobytes().hex()])
            integral = None if not math.isfinite(x) or not -128 <= round(x) <= 127 else np.int8(round(x)).tobytes().hex()
            CASES.append([source.name, "int8", "nearest-even", "", f"{code:02x}", integral])
        for to in rng.choice(len(types), 3):
            to = types[to]
            if to is source:
                continue
            for code, x in enumerate(source.numbers):
                want = to.nan if math.isnan(x) else to.round(float(x), "nearest-even", True)
                CASES.append([source.name, to.name, "nearest-even", "clamp", f"{code:02x}", None if want is None else f"{want:02x}"])
    lines = ",\n".join(json.dumps(case) for case in CASES)
    (Path(__file__).parent / "cast_small.json.gz").write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))


main()
