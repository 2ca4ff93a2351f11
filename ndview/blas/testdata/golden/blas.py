"""Writes blas.json: products of NumPy for each dtype, layout, transpose, alpha and beta.

Run from the root of the repository:
    .venv/bin/python ndview/blas/testdata/golden/blas.py > ndview/blas/testdata/golden/blas.json

With `--cupy N SEED` it writes N larger random cases that CuPy computes on a GPU.

"data" has flat memory: a name, and the bytes as hex text. An array is a view of it: its
name, offset, shape and strides in bytes. A case is [operation, dtype, a, b, c or null,
alpha, beta, trans_a, trans_b, shape, bytes of the result as hex text], with a complex
number as [re, im] and null for an option that is not set. All values are small multiples
of a power of 2, so no sum is rounded in any dtype, except for special values.
"""

import json
import sys
import warnings

import numpy as np

try:
    import ml_dtypes
except ImportError:  # on a machine that only makes cases of other dtypes
    ml_dtypes = None

warnings.simplefilter("ignore")
r = np.random.default_rng(20261126)
xp = np
most = 7
if len(sys.argv) > 1:
    import cupy as xp

    r = np.random.default_rng(int(sys.argv[3]))
    most = 96

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bfloat16", "float16", "float32", "float64", "complex64", "complex128"]
if ml_dtypes is None:
    DTYPES.remove("bfloat16")
data, cases = {}, []


def numpy_type(dtype):
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def values(dtype, n):
    t = numpy_type(dtype)
    if dtype == "bool":
        return r.random(n) < 0.3
    if t.kind in "iu":
        info = np.iinfo(t)
        return r.integers(info.min, info.max, n, dtype=t, endpoint=True)
    x = r.integers(-2, 3, n).astype("float64")
    if t.kind == "c":
        x = x + 1j * r.integers(-2, 3, n)
    return x.astype(t)


def array(dtype, shape, layout, special=False):
    """Returns a view of new memory, and how it is described."""
    t = numpy_type(dtype)
    size = t.itemsize
    nd = len(shape)
    order = list(range(nd))
    if layout == "F":
        order.reverse()
    elif layout == "K":  # axes in another order
        r.shuffle(order)
    step = {"odd": size + 1, "wide": 3 * size}.get(layout, size)
    strides = [0] * nd
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, shape[axis]) + (2 if layout == "padded" and axis == order[-1] else 0)
    offset = 3 * size if layout != "odd" else 3 * size + 1
    whole = step + offset + 2 * size
    if layout == "negative":
        for axis in range(nd):
            if shape[axis] and r.random() < 0.7:
                offset += strides[axis] * (shape[axis] - 1)
                strides[axis] = -strides[axis]
    elif layout == "zero" and nd:
        strides[int(r.integers(nd))] = 0
    memory = np.full(whole, 0xA5, "uint8")
    view = np.ndarray(shape, t, memory, offset, strides)
    if view.size:
        view[...] = values(dtype, view.size).reshape(shape)
        if special:
            at = r.random(shape) < 0.1
            view[at] = r.choice(np.array([np.nan, np.inf, -np.inf, 0.0]), int(at.sum())).astype(t)
    name = f"d{len(data)}"
    data[name] = memory
    return view, [name, offset, list(shape), strides]


def op(x, trans):
    if trans is None:
        return x
    x = x.swapaxes(-1, -2) if x.ndim > 1 else x
    return x.conj() if trans == "C" and x.dtype.kind == "c" else x


def computed(dtype):
    """The type in which NumPy computes."""
    return np.dtype("float32") if dtype in ("float16", "bfloat16") else numpy_type(dtype)


def product(operation, a, b):
    if operation == "ger":
        return a[:, None] * b[None, :] if a.dtype != bool else a[:, None] & b[None, :]
    return xp.matmul(a, b)


def case(operation, dtype, a_shape, b_shape, layouts, c_layout=None, alpha=None, beta=None, trans_a=None, trans_b=None, special=False):
    t, wide = numpy_type(dtype), computed(dtype)
    a, a_text = array(dtype, a_shape, layouts[0], special)
    b, b_text = array(dtype, b_shape, layouts[1], special)
    result = product(operation, op(xp.asarray(a.astype(wide)), trans_a), op(xp.asarray(b.astype(wide)), trans_b))
    if xp is not np:
        result = xp.asnumpy(result)
    result = np.asarray(result).astype(wide)
    if alpha is not None:
        result = result & alpha if dtype == "bool" else np.zeros_like(result) if alpha == 0 else (result * np.array(alpha).astype(wide)).astype(wide)
    c_text = None
    if c_layout:
        c, c_text = array(dtype, result.shape, c_layout)
        factor = beta if beta is not None else 1 if operation == "ger" else 0
        if factor == 0 and t.kind in "fcV":
            c[...] = np.nan
        elif factor:
            c = c.astype(wide)
            result = result | (c & bool(factor)) if dtype == "bool" else result + (c * np.array(factor).astype(wide)).astype(wide)
    number = lambda v: [v.real, v.imag] if isinstance(v, complex) else v
    cases.append([operation, dtype, a_text, b_text, c_text, number(alpha), number(beta), trans_a, trans_b,
                  list(result.shape), np.ascontiguousarray(result.astype(t)).tobytes().hex()])


LAYOUTS = ["C", "F", "K", "negative", "zero", "odd", "wide", "padded"]


def factors(dtype):
    """The values of alpha and beta."""
    kind = numpy_type(dtype).kind
    if kind == "b":
        return [None, False, True]
    numbers = [None, 0, 1, 2, -1] if kind != "u" else [None, 0, 1, 2, 3]
    if kind in "fcV":
        numbers += [0.5, -1.5]
    if kind == "c":
        numbers += [1 + 2j, -0.5j]
    return numbers


def every_case(dtype):
    """Every pair of transposes, every layout of each operand and of the result, and every
    value of alpha and of beta, in gemm of a batch and of one matrix."""
    transposes = [(a, b) for a in (None, "T", "C") for b in (None, "T", "C")]
    numbers, results = factors(dtype), [x for x in LAYOUTS if x != "zero"]
    m, n, k = 3, 5, 4
    for i in range(2 * len(transposes)):
        a, b = transposes[i % len(transposes)]
        lead = [2] if i % 2 else []
        case("gemm", dtype, lead + ([k, m] if a else [m, k]), lead + ([n, k] if b else [k, n]),
             [LAYOUTS[i % 8], LAYOUTS[(3 * i + 1) % 8]], results[i % 7], numbers[i % len(numbers)], numbers[i // 2 % len(numbers)], a, b)  # fmt: skip


def random_case(dtype, special=False):
    pick = lambda: str(r.choice(LAYOUTS))
    operation = str(r.choice(["gemm", "gemm", "gemm", "gemv", "ger", "dot", "matmul", "matmul"]))
    m, n, k = (int(x) for x in r.integers(1, most + 1, 3))
    if most == 7 and r.random() < 0.1:
        m, n, k = r.permutation([m, n, 0]).tolist()
    if dtype in ("bfloat16", "float16"):
        k = min(k, 16)
    if operation == "matmul":
        lead = [int(x) for x in r.integers(1, 4, r.integers(0, 4))]
        cut = lambda: [1 if r.random() < 0.3 else d for d in lead[int(r.integers(len(lead) + 1)):]]
        a, b = cut() + [m, k], cut() + [k, n]
        if r.random() < 0.2:
            a = [k]
        if r.random() < 0.2:
            b = [k]
        return case(operation, dtype, a, b, [pick(), pick()], special=special)
    trans = lambda: [None, None, "T", "C"][int(r.integers(4))]
    trans_a, trans_b = trans(), trans()
    numbers = factors(dtype)
    alpha, beta, c_layout = numbers[int(r.integers(len(numbers)))], None, None
    if r.random() < 0.6:
        beta = numbers[int(r.integers(len(numbers)))]
        c_layout = str(r.choice([x for x in LAYOUTS if x != "zero"]))
    lead_a = lead_b = []
    if operation == "gemm" and r.random() < 0.5:
        lead = [int(x) for x in r.integers(1, 4, r.integers(1, 3))]
        lead_a = [1 if r.random() < 0.2 else d for d in lead]
        lead_b = [1 if r.random() < 0.2 else d for d in lead]
    a = lead_a + ([k, m] if trans_a else [m, k])
    b = lead_b + ([n, k] if trans_b else [k, n])
    if operation == "gemv":
        b, trans_b = [k], None
    elif operation == "ger":
        a, b, trans_a = [m], [n], None
        trans_b = "C" if trans_b == "C" else None
    elif operation == "dot":
        a, b, trans_b = [k], [k], None
        trans_a = "C" if trans_a == "C" else None
    case(operation, dtype, a, b, [pick(), pick()], c_layout, alpha, beta, trans_a, trans_b, special)


if xp is np:
    for dtype in DTYPES:
        for _ in range(24):
            random_case(dtype)
        # An empty sum, with a C that is and is not read.
        for beta in ([None, 1] if dtype != "bool" else [None, True]):
            case("gemm", dtype, [3, 0], [0, 2], ["C", "C"], "C", None, beta)
            case("gemv", dtype, [3, 0], [0], ["C", "C"], "C", None, beta)
            case("dot", dtype, [0], [0], ["C", "C"], "C", None, beta)
        for shape in ([0, 2], [2, 0]):
            case("gemm", dtype, [shape[0], 4], [4, shape[1]], ["C", "F"])
            case("ger", dtype, shape[:1], shape[1:], ["C", "C"])
        case("matmul", dtype, [0, 3, 2], [2, 4], ["C", "C"])
    for dtype in ("bfloat16", "float16", "float32", "float64"):
        for _ in range(6):
            random_case(dtype, special=True)
    for dtype in DTYPES:
        every_case(dtype)
else:
    for i in range(int(sys.argv[2])):
        random_case(DTYPES[i % len(DTYPES)])

print('{"data": {')
print(",\n".join(f'"{k}": "{v.tobytes().hex()}"' for k, v in data.items()))
print('}, "cases": [')
print(",\n".join(json.dumps(c) for c in cases))
print("]}")
