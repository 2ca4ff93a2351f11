"""Writes reduce.json: the results of NumPy's reductions of arrays of every type and layout.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/reduce.py > ndview/testdata/golden/reduce.json

"data" has flat arrays: a name, a dtype, the bytes as hex text. An array is a view
of one of them: its offset, shape and strides count elements. A case is [data's
name, offset, shape, strides, reduction, axes (null: all), keepdims, dtype or "",
result's dtype, shape, bytes as hex text], without a result if NumPy raises.
NumPy rounds no result but means.
"""

import json
import warnings

import numpy as np

warnings.simplefilter("ignore")
N = 240
r = np.random.default_rng(20261121)
data, cases = {}, []

NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "float32", "float64", "complex64", "complex128"]
TIMES = ["datetime64[ms]", "timedelta64[s]"]


def plain(dtype):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return r.integers(0, 2, N).astype(dtype)
    if kind in "iu":
        info = np.iinfo(dtype)
        x = r.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
        x[r.random(N) < 0.2] = 0
        return x
    if kind in "mM":
        return r.integers(-10**6, 10**6, N).view("int64").astype(dtype)
    x = r.integers(-8, 9, N) / 4
    if kind == "c":
        x = x + 1j * r.integers(-8, 9, N) / 4
    return x.astype(dtype)


def powers(dtype):
    """Products stay powers of 2."""
    x = r.choice([1, 1, 1, 1, -1, 2, 0.5], N)
    if np.dtype(dtype).kind == "c":
        x = x * r.choice([1, 1j], N)
    return x.astype(dtype)


def special(dtype):
    x = plain(dtype)
    kind = np.dtype(dtype).kind
    at = r.random(N) < 0.12
    if kind in "mM":
        x[at] = "NaT"
    else:
        values = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        if kind == "c":
            values = [complex(a, b) for a in values for b in values]
        x[at] = r.choice(np.array(values), at.sum()).astype(dtype)
    return x


def view(a):
    while True:
        shape = r.integers(1, 6, r.integers(0, 5))
        if r.random() < 0.08 and len(shape):
            shape[r.integers(len(shape))] = 0
        if np.prod(np.maximum(shape, 1)) <= N:
            break
    v = a[: int(np.prod(shape))].reshape(shape)
    v = v[(..., *(slice(None, None, r.choice([1, 1, 1, -1, 2])) for _ in shape))]
    if r.random() < 0.5:
        v = v.transpose(r.permutation(v.ndim))
    if r.random() < 0.15:
        v = np.broadcast_to(v, (2, *v.shape))
    return v


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max, "argmin": np.argmin,
              "argmax": np.argmax, "any": np.any, "all": np.all, "count_nonzero": np.count_nonzero}


def case(name, a, reduction, axes, keepdims, dtype=""):
    flat = data[name]
    offset = (a.__array_interface__["data"][0] - flat.__array_interface__["data"][0]) // flat.itemsize
    line = [name, int(offset) if a.size else 0, list(map(int, a.shape)), [s // flat.itemsize for s in a.strides],
            reduction, axes, keepdims, dtype]
    axis = None if axes is None else tuple(axes)
    if reduction.startswith("arg"):
        axis = None if axes is None else axes[0]
    options = {"dtype": dtype} if dtype else {}
    try:
        out = np.asarray(REDUCTIONS[reduction](a, axis=axis, keepdims=keepdims, **options))
        line += [str(out.dtype), list(out.shape), out.tobytes().hex()]
    except (TypeError, ValueError, IndexError):
        pass
    cases.append(line)


def some_axes(n, one):
    if r.random() < 0.3:
        return None
    if one:
        return [int(r.integers(-n, n))] if n else None
    axes = r.permutation(n)[: r.integers(0, n + 1)]
    return [int(a - n if r.random() < 0.3 else a) for a in axes]


for dtype in NUMBERS + TIMES:
    data[dtype] = plain(dtype)
    kind = np.dtype(dtype).kind
    if kind in "fc":
        data["powers " + dtype] = powers(dtype)
    if kind in "fcmM":
        data["special " + dtype] = special(dtype)
    for reduction in REDUCTIONS:
        if kind in "fc" and reduction == "prod":
            names = ["powers " + dtype] * 4
        elif kind == "c" and reduction == "mean":
            names = [dtype] * 4  # it divides by complex(n): infinities become NaN
        elif kind in "fcmM":
            names = [dtype, "special " + dtype] * 4
        elif kind in "iu" and reduction == "mean" and np.dtype(dtype).itemsize == 8:
            data["small " + dtype] = data[dtype] >> 20
            names = ["small " + dtype] * 5
        else:
            names = [dtype] * 5
        for name in names:
            a = view(data[name])
            axes = some_axes(a.ndim, reduction.startswith("arg"))
            case(name, a, reduction, axes, bool(r.integers(2)))
for dtype in ["int8", "uint16", "int32", "int64", "uint64"]:
    for want in ["int16", "uint8", "int64", "float64", "bool"]:
        for reduction in ["sum", "prod"]:
            if reduction == "sum" or want != "float64":
                name = "small " + dtype if "int64" in dtype else dtype
                a = view(data[name])
                case(name, a, reduction, some_axes(a.ndim, False), False, want)
for dtype in ["float16", "float32", "complex64"]:
    for want in ["float64", "complex128"]:
        if dtype != "complex64" or want == "complex128":
            a = view(data[dtype])
            case(dtype, a, "sum", some_axes(a.ndim, False), True, want)
            case("powers " + dtype, view(data["powers " + dtype]), "prod", None, False, want)

# Errors, and shapes without elements.
three = data["float32"][:24].reshape(2, 3, 4)
for reduction in REDUCTIONS:
    for axes in [[3], [-4], [0, 0], [1, -2], []]:
        if reduction.startswith("arg") and len(axes) != 1:
            continue
        case("float32", three, reduction, axes, False)
    for shape in [(0,), (0, 3), (3, 0), (2, 0, 2), (0, 0)]:
        empty = data["int16"][:0].reshape(shape)
        case("int16", empty, reduction, None, False)
        for axis in range(len(shape)):
            case("int16", empty, reduction, [axis], False)
    case("float64", data["float64"][:0], reduction, None, True)
    case("timedelta64[s]", data["timedelta64[s]"][:0], reduction, None, False)

print('{"data":{')
print(",\n".join(json.dumps(k) + ":" + json.dumps([str(v.dtype), v.tobytes().hex()]) for k, v in data.items()))
print('},"cases":[')
print(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
print("]}")
