"""Writes cast.json: values of every type cast to every other type by NumPy.

    .venv/bin/python ndview/testdata/golden/cast.py

"values" has the bytes of each type's values, and "casts" those of the results, by
"from to", in hexadecimal, little-endian. Values are cast one at a
time: NumPy casts some floats beyond uint32 differently in the middle of an array and at
its end, and a single one as a C compiler does. NumPy has no bfloat16. Its values are cast
as the same float32, and casts to it are rounded here from the exact value.
"""

import json
import math
import random
import struct
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
RANDOM = 24


def numpy_type(name: str) -> np.dtype:
    return np.dtype("uint16" if name == "bfloat16" else name)


def integers(dtype: np.dtype, rng: random.Random) -> np.ndarray:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = {low, low + 1, -1, 0, 1, high, high - 1}
    for bits in range(6, 65):  # around powers of two, and halfway between floats
        for near in (-1, 0, 1):
            values |= {(1 << bits) + near, -(1 << bits) + near} if bits % 8 in (0, 7) else set()
        for kept in (8, 11, 24, 53):
            if bits in (kept + 1, kept + 5, 63):
                half = 1 << (bits - kept - 1) if bits > kept else 0
                values |= {(1 << bits) + half, (1 << bits) + 3 * half, (1 << bits) + half + 1, (1 << bits) + 3 * half - 1}
    values |= {rng.randint(low, high) for _ in range(RANDOM)}
    return np.array(sorted(v for v in values if low <= v <= high), dtype)


def floats(dtype: np.dtype, rng: random.Random) -> np.ndarray:
    info = np.finfo(dtype)
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, float(info.max), -float(info.max), float(info.tiny), float(info.smallest_subnormal)]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        edge = math.ldexp(1.0, bits)
        values += [edge, -edge, edge - 1, -edge - 1, np.nextafter(edge, 0), np.nextafter(-edge, -math.inf)]
    values += [0.5, -0.5, 0.99, -0.99, 1.5, -1.5, 65504.0, 65519.999, 65520.0, 1e30, 2.0**-25, 2.0**-24 * 1.5, 2.0**-133, 2.0**-134, 2.0**40 + 77]
    for kept in (8, 11, 24):  # halfway between two floats of fewer bits, and beside it
        for odd in (1, 3):
            half = 1 + odd * 2.0**-kept
            values += [half, -half, half + 2.0**-40, half - 2.0**-40, half * 2.0**-15]
    values += [rng.uniform(-300, 300) for _ in range(RANDOM)] + [rng.uniform(-1, 1) * 2.0 ** rng.randint(-30, 66) for _ in range(RANDOM)]
    seen = np.array(values).astype(dtype)
    return seen[np.sort(np.unique(seen.view(f"u{dtype.itemsize}"), return_index=True)[1])]


def values_of(name: str, rng: random.Random) -> np.ndarray:
    dtype = numpy_type(name)
    if name == "bool":
        return np.array([False, True])
    if name == "bfloat16":
        bits = floats(np.dtype("float32"), rng).view("uint32")
        return np.unique((bits >> 16).astype("uint16"))
    if dtype.kind in "iu":
        return integers(dtype, rng)
    if dtype.kind == "f":
        return floats(dtype, rng)
    real = floats(np.dtype(f"f{dtype.itemsize // 2}"), rng)
    return np.concatenate([real + 0j, (real[::-1] * 1j).astype(dtype), real[::5] + 1j * real[::-5]]).astype(dtype)


def bfloat16_of(v) -> int:
    """Returns the bits of the bfloat16 nearest to a number."""
    if isinstance(v, (complex, np.complexfloating)):
        v = v.real
    if isinstance(v, (float, np.floating)):
        sign = 0x8000 if math.copysign(1, v) < 0 else 0
        if math.isnan(v):
            return sign | 0x7FC0
        if math.isinf(v):
            return sign | 0x7F80
        exact = Fraction(float(v))
    else:
        sign, exact = (0x8000 if v < 0 else 0), Fraction(int(v))
    exact = abs(exact)
    if exact == 0:
        return sign
    exponent = math.floor(math.log2(exact)) if exact < 2**1000 else 1000
    while Fraction(2) ** exponent > exact:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= exact:
        exponent += 1
    exponent = max(exponent, -126)
    mantissa = round(exact / Fraction(2) ** (exponent - 7))  # Python rounds a Fraction's ties to even
    bits = mantissa + ((exponent + 126) << 7)
    return sign | min(bits, 0x7F80)


def cast(values: np.ndarray, source: str, target: str) -> bytes:
    if source == "bfloat16":
        values = (values.astype("uint32") << 16).view("float32")
    if target == "bfloat16":
        return struct.pack(f"<{len(values)}H", *(bfloat16_of(v) for v in values))
    return b"".join(values[i : i + 1].astype(target).tobytes() for i in range(len(values)))


def main() -> None:
    warnings.simplefilter("ignore")
    rng = random.Random(4)
    values = {name: values_of(name, rng) for name in TYPES}
    golden = {
        "numpy": np.__version__,
        "values": {name: v.tobytes().hex() for name, v in values.items()},
        "casts": {f"{s} {t}": cast(values[s], s, t).hex() for s in TYPES for t in TYPES},
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(golden, indent=0) + "\n")


main()
