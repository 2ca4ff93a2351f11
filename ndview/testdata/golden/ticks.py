"""Writes ticks.json: times cast from one unit to another by NumPy.

    .venv/bin/python ndview/testdata/golden/ticks.py

A case is [type, other type, counts, counts in the other unit], where null is a
count beyond the other unit. NumPy raises for some counts whose intermediate product is
beyond 64 bits, and lets some wrap around. This script computes exact results, and compares
them with NumPy's if both have one. The days of years and months are NumPy's.
"""

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np

NAT = -(2**63)
UNITS = "Y M W D h m s ms us ns ps fs as".split()
LENGTHS = {  # in attoseconds; of a month and a year as timedelta64 has them
    "Y": Fraction(146097 * 86400 * 10**18, 400), "M": Fraction(146097 * 86400 * 10**18, 4800),
    "W": 7 * 86400 * 10**18, "D": 86400 * 10**18, "h": 3600 * 10**18, "m": 60 * 10**18,
    "s": 10**18, "ms": 10**15, "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1,
}  # fmt: skip


def by_numpy(count: int, source: str, target: str):
    try:
        return int(np.array([count], "i8").view(source).astype(target).view("i8")[0])
    except OverflowError:
        return None


def convert(count: int, kind: str, source: tuple, target: tuple):
    found = by_numpy(count, *types(kind, source, target))
    if count == NAT or by_calendar(kind, source, target) and target[1] in "YM":
        return found
    if by_calendar(kind, source, target):
        count, source = by_numpy(count, *types(kind, source, (1, "D"))), (1, "D")
    exact = count * source[0] * Fraction(LENGTHS[source[1]]) // (target[0] * Fraction(LENGTHS[target[1]]))
    right = exact if abs(exact) < 2**63 else None
    assert found is None or right is None or found == right, (count, types(kind, source, target), found, right)
    return right


def types(kind: str, source: tuple, target: tuple) -> list:
    return [f"{kind}8[{step}{unit}]" for step, unit in (source, target)]


def by_calendar(kind: str, source: tuple, target: tuple) -> bool:
    return kind == "M" and (source[1] in "YM") != (target[1] in "YM")


def main() -> None:
    rng = random.Random(5)
    cases = []
    pairs = [((1, a), (1, b)) for a in UNITS for b in UNITS if a != b]
    pairs += [((rng.choice([2, 7, 1000]), rng.choice(UNITS)), (rng.choice([1, 3, 25]), rng.choice(UNITS))) for _ in range(40)]
    for kind in "mM":
        for source, target in pairs:
            ratio = Fraction(source[0] * LENGTHS[source[1]]) / Fraction(target[0] * LENGTHS[target[1]])
            if max(ratio.numerator, ratio.denominator) >= 2**63 or by_numpy(1, *types(kind, source, target)) is None and by_numpy(0, *types(kind, source, target)) is None:
                continue  # units that are too far apart
            counts = [NAT, 0, 1, -1, 59, -61, 365, -366, 719, -2000]
            counts += [rng.randint(-(10 ** (k + 1)), 10 ** (k + 1)) for k in range(4)]
            if by_calendar(kind, source, target):
                counts = [c for c in counts if by_numpy(c, *types(kind, source, target)) is not None]
            else:
                counts += [rng.randint(-(2**k), 2**k) for k in (40, 50, 58, 62)]
            cases.append([*types(kind, source, target), counts, [convert(c, kind, source, target) for c in counts]])
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    Path(__file__).with_suffix(".json").write_text(f"[\n{text}\n]\n")


main()
