"""Writes functions.json: the exact values of NumPy's functions of floats, and the results
of numpy.where and numpy.clip.

Run: .venv/bin/python ndview/testdata/golden/functions.py

Values are computed in long double or its complex type, and rounded once to float64 or
complex128: a test measures the error against these, not against another approximation.
Elements are base64.
"""

import base64
import json
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
np.seterr(all="ignore")

UNARY = """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    sqrt cbrt""".split()
COMPLEX = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh sqrt".split()
BINARY = "arctan2 hypot power copysign".split()

REALS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -3.25, 0.1, 0.999, 7.0, -9.5, 20.0, 100.0, 1e-3, -1e-7, 3.14159,
         1e4, -65000.0, 5e-324, 1e-310, 3e-45, 1e-40,
         # Near zeros of the sine, the cosine and log2, and where arcsin is steep.
         6381956970095103 * 2.0**797, 1818976709888.2651, 17476307961.064453, 129362568.6392332, 1e22, 1.000000000000001,
         -0.999999992547694, 0.9694871790877507,
         # Near where exponentials become infinite.
         709.4, 709.5, 709.78, 709.79, -709.9, 710.0, -710.47, 710.48,
         np.inf, -np.inf, np.nan]
PAIRS = [0.0, -0.0, 0.5, -1.5, 2.0, 3.0, -7.0, 1e-3, 100.0, 1e300, -1e300, 1e-300, -1e-300, np.inf, -np.inf, np.nan]
# Bases of large powers that are neither 0 nor infinite.
NEAR_1 = [1 + 2.0**-52, 1 - 2.0**-53, -1 - 2.0**-52, 1 + 1e-9, 1 - 1e-7, 1.0]
LARGE = [2.0**31, -(2.0**31) - 1, 5e9, -1e10, 1e15 + 1, 2.0**53, -3e18, 1e300]
COMPLEXES = [1 + 2j, -2.5 + 0.5j, 3 - 4j, 0.1j, 0.75, -1.25, 1e-3 - 1e-3j, 5 + 1j, -0.5 - 6j]
# Numbers whose exponentials are infinite, and zeros and numbers near them.
FAR = [800, complex(-800, 0.5), complex(3, -800), 800j, 709.5 + 1j, complex(-0.0, 800), 1e10 + 3j, 5e-324, 5e-324j, complex(5e-324, 5e-324),
       complex(1e-310, -1e-320), 0, complex(-0.0, 0), 1e300 + 1e300j]
FAR_FUNCTIONS = "sin cos tan exp log log2 log10 sinh cosh tanh sqrt".split()
POWERS = [1, 5, -3, 0, 0.5, 1 - 1j, -2, 99]
FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


def text(a):
    return base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def functions():
    wide = np.longdouble
    for name, t in FLOATS.items():
        x = np.array(REALS).astype(t)
        for f in UNARY:
            yield [f, name, text(x), text(getattr(np, f)(x.astype(wide)).astype(np.float64))]
        x, y = (v.astype(t).ravel() for v in np.meshgrid(PAIRS, PAIRS))
        for f in BINARY:
            yield [f, name, text(x), text(getattr(np, f)(x.astype(wide), y.astype(wide)).astype(np.float64)), text(y)]
        info = ml_dtypes.finfo(t)
        edges = [0.0, 1.0, 1.5, info.max, info.tiny, info.smallest_subnormal, np.inf]
        x, y = (v.ravel() for v in np.meshgrid(*[np.array([*edges, *(-v for v in edges), np.nan]).astype(t)] * 2))
        yield ["nextafter", name, text(x), text(np.nextafter(x, y).astype(np.float64)), text(y)]
    x, y = (v.ravel() for v in np.meshgrid(NEAR_1, LARGE))
    yield ["power", "float64", text(x), text(np.power(x.astype(wide), y.astype(wide)).astype(np.float64)), text(y)]
    for name in ("complex64", "complex128"):
        x = np.array(COMPLEXES, name)
        for f in COMPLEX:
            yield [f, name, text(x), text(getattr(np, f)(x.astype(np.clongdouble)).astype(np.complex128))]
        x = np.array(FAR, name)
        x = x[np.isfinite(x)]
        for f in FAR_FUNCTIONS:
            if f not in ("sin", "cos", "tan"):
                x = np.append(x[np.isfinite(x)], np.array([np.inf, -np.inf], name))
            yield [f, name, text(x), text(getattr(np, f)(x.astype(np.clongdouble)).astype(np.complex128))]
        x, y = (v.ravel() for v in np.meshgrid(COMPLEXES + [0, 1.5 - 2j], COMPLEXES + POWERS))
        x, y = x.astype(name), y.astype(name)
        yield ["power", name, text(x), text(np.power(x.astype(np.clongdouble), y.astype(np.clongdouble)).astype("c16")), text(y)]


def choices():
    condition = np.array([True, False, False, True, True])
    small = {"int8": [1, -2, 3, -128, 127], "uint16": [0, 1, 2, 3, 65535], "float16": [1.5, -0.0, np.nan, np.inf, 2],
             "float32": [1.5, -0.0, np.nan, np.inf, 2], "float64": [0.1, 1e300, -1, 0, 5], "int64": [2**60, 1, 2, 3, -4],
             "bool": [1, 0, 1, 0, 0], "complex64": [1j, 2, 3, 4 + 1j, 5]}
    arrays = {t: np.array(v, t) for t, v in small.items()}
    for s, t in [(t, t) for t in small] + [("int8", "uint16"), ("float32", "int64"), ("float16", "int8"), ("bool", "float64"),
                                           ("complex64", "float64")]:
        r = np.where(condition, arrays[s], arrays[t][::-1])
        yield ["where", s, t, text(condition), text(arrays[s]), text(arrays[t][::-1]), str(r.dtype), text(r)]
    bounds = {"int8": (-3, 100), "uint16": (1, 9), "float16": (-1, 2), "float32": (-1, 1.5), "float64": (-0.5, np.nan),
              "int64": (-1, 2**40)}
    for t, (low, high) in bounds.items():
        low, high = np.array([low] * 5, t), np.array([high] * 5, t)
        r = np.clip(arrays[t], low, high)
        yield ["clip", t, t, text(arrays[t]), text(low), text(high), str(r.dtype), text(r)]


def main():
    lines = {k: ",\n".join(json.dumps(r, separators=(",", ":")) for r in f()) for k, f in (("functions", functions), ("choices", choices))}
    text = "{" + ",\n".join(f'"{k}":[\n{v}\n]' for k, v in lines.items()) + "}\n"
    Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
