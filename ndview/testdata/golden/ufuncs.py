"""Writes ufuncs.json: the results of NumPy's elementwise functions for values at the
limits of each type, and for pairs of them.

Run: .venv/bin/python ndview/testdata/golden/ufuncs.py

Elements are base64 of their bytes. A binary function gets each value of the first type
with each of the second. bfloat16 is that of ml_dtypes.
"""

import base64
import json
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
np.seterr(all="ignore")

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool", *INTS, *FLOATS, *COMPLEX]


def values(name):
    t = np.dtype(getattr(ml_dtypes, name, name))
    if t.kind == "b":
        v = [False, True]
    elif t.kind in "iu":
        i = np.iinfo(t)
        v = [0, 1, 2, 7, i.max, i.max - 1, 3] if t.kind == "u" else [0, 1, 3, i.max, i.min, -1, -7]
    elif t.kind == "f" or name == "bfloat16":
        f = ml_dtypes.finfo(t)
        v = [0.0, -0.0, 1.5, -2.5, f.max, f.tiny / 4, np.inf, -np.inf, np.nan]
    else:
        v = [0, 1 + 2j, -2.5 + 0.5j, 3 - 4j, 1j]
    return np.array(v, t)


UNARY = {
    "negative": np.negative, "positive": np.positive, "absolute": np.absolute, "sign": np.sign, "square": np.square,
    "reciprocal": np.reciprocal, "conjugate": np.conjugate, "invert": np.invert, "logical_not": np.logical_not,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
}
BINARY = {
    f: getattr(np, f)
    for f in """add subtract multiply divide floor_divide remainder fmod maximum minimum fmax fmin bitwise_and
    bitwise_or bitwise_xor left_shift right_shift equal not_equal less less_equal greater greater_equal logical_and
    logical_or logical_xor""".split()
}
MIXED = [("int64", "uint64"), ("uint64", "int8"), ("int8", "uint8"), ("float32", "int16"), ("float16", "float32"),
         ("bool", "float64"), ("int32", "float32"), ("uint16", "float16"), ("complex64", "float64"), ("bool", "uint8")]


def text(a):
    return base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def cases():
    for name, f in UNARY.items():
        for t in ALL:
            yield name, [t], f, [values(t)]
    for name, f in BINARY.items():
        for s, t in [(t, t) for t in ALL] + MIXED:
            yield name, [s, t], f, [values(s)[:, None], values(t)[None, :]]


def main():
    records = []
    for name, types, f, operands in cases():
        try:
            r = f(*operands)
        except TypeError:
            records.append([name, *types])  # an error
            continue
        if name == "reciprocal" and r.dtype.kind in "iu":
            r[operands[0] == 0] = 0  # undefined in NumPy
        records.append([name, *types, str(r.dtype), text(r)])
    out = {"values": {t: text(values(t)) for t in ALL}, "cases": records}
    lines = [json.dumps(r, separators=(",", ":")) for r in records]
    head = json.dumps(out["values"], separators=(",", ":"))
    Path(__file__).with_suffix(".json").write_text('{"values":' + head + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
