"""Writes scalars.json: the results of NumPy's functions of two operands for an array and a
scalar, plain or of a type, on either side.

Run: .venv/bin/python ndview/testdata/golden/scalars.py

Elements are base64 of their bytes. A scalar is a number, or ["type", "bytes"].
"""

import base64
import json
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
np.seterr(all="ignore")

FUNCTIONS = """add subtract multiply divide floor_divide remainder fmod maximum minimum fmax fmin bitwise_and bitwise_or
    bitwise_xor left_shift right_shift equal not_equal less less_equal greater greater_equal logical_and logical_or
    logical_xor power arctan2 hypot copysign""".split()
TYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def values(name):
    t = dtype(name)
    if t.kind == "b":
        v = [False, True, True]
    elif t.kind in "iu":
        v = [0, 1, 3, 7, np.iinfo(t).max, np.iinfo(t).min + (t.kind == "i")]
    elif t.kind == "c":
        v = [1 + 2j, -2.5 + 0.5j, 3 - 4j]
    else:
        v = [-0.0, 0.75, 1.5, -2.5, 7.0, 100.0, np.inf, np.nan]
    return np.array(v, t)


def scalars(name):
    t = dtype(name)
    yield values(name)[2]
    if t.kind in "iu":
        yield from (np.int8(-2), np.uint64(2**63), 300)
    if name != "bfloat16":  # ml_dtypes promotes it with a plain number to float32
        yield from (-3, 2.5)


def text(a):
    return base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def main():
    records = []
    for f in FUNCTIONS:
        for name in TYPES:
            if name == "complex64" and f == "power":
                continue  # functions.json has its bounds
            for s in scalars(name):
                number = [str(s.dtype), text(s)] if isinstance(s, np.generic) else s
                for side in (0, 1):
                    x = values(name)
                    record = [f, name, number, side]
                    try:
                        r = getattr(np, f)(*((s, x) if side == 0 else (x, s)))
                    except (TypeError, ValueError, OverflowError) as e:
                        if isinstance(e, ValueError) and side == 0:
                            continue  # an integer to the negative powers of an array: see docs/ufuncs.md
                        # A TypeError if the type has no such function, another error if it does not represent the number.
                        records.append([*record, type(e).__name__])
                        continue
                    records.append([*record, str(r.dtype), text(r)])
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in records)
    values_ = json.dumps({t: text(values(t)) for t in TYPES}, separators=(",", ":"))
    Path(__file__).with_suffix(".json").write_text('{"values":' + values_ + ',"cases":[\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
