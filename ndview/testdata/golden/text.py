"""What NumPy prints: str and repr of arrays of every dtype and layout.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/text.py > ndview/testdata/golden/text.json

Each case has the dtype, the shape, and the elements' bytes in C order as hex
text, or "range" for elements 0, 1, 2, ... of that dtype.
"""

import json

import numpy as np

rng = np.random.default_rng(20261121)
cases = []


def case(a, counts=False, form=None):
    a = np.asarray(a)
    cases.append({
        "dtype": form or (a.dtype.name if a.dtype.kind != "V" else f"V{a.dtype.itemsize}"),
        "shape": list(a.shape),
        "data": "range" if counts else a.tobytes().hex(),
        "str": str(a),
        "repr": repr(a),
    })


def ranged(dtype, *shape):
    n = int(np.prod(shape))
    case(np.arange(n).astype(dtype).reshape(shape), counts=True)


numbers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "float32", "float64", "complex64", "complex128", "bool"]
for dtype in numbers:
    for shape in [(), (0,), (3,), (0, 3), (2, 0, 1), (1, 2, 2), (24,), (1001,), (7, 200)]:
        ranged(dtype, *shape)
for shape in [(1000,), (1,), (2, 3), (1, 1, 1), (2, 40), (2, 2, 2, 2), (200, 7), (6, 200), (10, 10, 11), (2, 2, 2, 150), (1, 1100)]:
    for dtype in ["int64", "float32", "complex64"][: 1 if shape == (1000,) else 3]:
        ranged(dtype, *shape)

for dtype in numbers[:8]:
    info = np.iinfo(dtype)
    case(np.array([info.min, info.max, 0, 1], dtype))
    case(np.array(info.max, dtype))

floats = {
    "float16": [65504, 6e-8, 1e-4, 1.0001e-4, 999.5, 1000, 0.1, 3.14, 0.333, 2048, 2047, 1 / 3, 6.1e-5],
    "float32": [3.4028235e38, 1e-45, 1e-4, 9.9999e-5, 999999, 1e6, 0.1, 3.1415927, 16777216, 1 / 3, 123456.7, 1e10],
    "float64": [1.7976931348623157e308, 5e-324, 1e-4, 9.9999e-5, 99999999, 1e8, 0.1, np.pi, 2**53, 1 / 3, 1e16,
                9999999999999998, 123456789.123, 0.30000000000000004, 1.5e-9, 2.5e-9, 0.000012345678912345],
}
odd = [np.nan, np.inf, -np.inf, -0.0, 0.0]
for dtype, values in floats.items():
    with np.errstate(all="ignore"):
        for v in values + odd:
            case(np.array(v, dtype))
            case(np.array(-v, dtype))
            case(np.array([v], dtype))
        for k in range(1, len(values)):
            case(np.array([values[k - 1], -values[k]], dtype))
            case(np.array([values[k], 1, odd[k % 5]], dtype))
        for v in odd:
            case(np.array([v, v], dtype))
            case(np.array([v, 1.25, -3], dtype))
            case(np.array([v, 1e-5, 3], dtype))
        for _ in range(10):
            n = int(rng.integers(1, 14))
            spread = float(rng.choice([0.1, 1, 4, 9]))
            case((rng.standard_normal(n) * 10 ** rng.uniform(-spread, spread, n)).astype(dtype))
            case(np.round(rng.standard_normal(n) * 20, int(rng.integers(0, 4))).astype(dtype))
        bits = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}[dtype]
        for _ in range(12):
            case(rng.integers(0, np.iinfo(bits).max, 9, dtype=bits, endpoint=True).view(dtype))
        case((2.0 ** np.arange(-14, 16)).astype(dtype))

case(np.array([2**21 + 0.25, 2**21 + 0.75, 2**20 + 0.125], "float32"))  # as near to two short numbers
case(np.array([2**50 + 0.25, 2**50 + 0.75, 2**49 + 0.375], "float64"))
case(np.float32(2**19 + 0.0625 * np.arange(16)))
case(2.0 ** np.arange(-1022, 1023, 37))
case(np.float32(2.0) ** np.arange(-140, 127, 5, dtype="float32"))

for dtype in ["complex64", "complex128"]:
    parts = [0, -0.0, 1, -1, 0.5, 1e20, 1e-5, np.nan, np.inf, -np.inf, 1 / 3, 1e16]
    for re in parts:
        for im in parts[:: 1 if dtype == "complex128" else 3]:
            case(np.array(complex(re, im), dtype))
    case(np.array([complex(re, im) for re in parts for im in parts[:3]], dtype))
    case(np.array([complex(re, im) for re in [1, 2.25] for im in [0, np.nan]], dtype))
    case(np.array([complex(re, im) for re in [1, np.nan] for im in [0, np.inf]], dtype))
    for _ in range(10):
        n = int(rng.integers(1, 12))
        case((rng.standard_normal(n) * 10 ** rng.uniform(-3, 3, n) + 1j * rng.standard_normal(n)).astype(dtype))

nat = np.iinfo("int64").min
for unit in ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "3D", "10ms"]:
    for kind in ["datetime64", "timedelta64"]:
        for counts in [[nat], [], [0, -1, 1000, nat], [123456789, -987654321]]:
            case(np.array(counts, "int64").view(f"{kind}[{unit}]"))
        for count in [1, nat, -100000]:
            case(np.array(count, "int64").view(f"{kind}[{unit}]"))
for unit in ["s", "ms", "us", "ns", "D", "h"]:
    case(np.array([2**53, -2**53, 719468 * 1000], "int64").view(f"datetime64[{unit}]"))
case(np.arange(2000).astype("datetime64[D]"), counts=True)
case(np.array([-719162, -719163, -719529, -719468, 2932896, 2932897, 11016, 11017, -25509], "datetime64[D]"))

for size in [1, 2, 5, 16]:
    case(np.frombuffer(bytes(range(250 - size, 256)) * 3, f"V{size}", 3))
    case(np.frombuffer(b"a" * size, f"V{size}")[0])
case(np.zeros((0, 2), "V3"))

records = [
    [["a", "<i4"]],
    [["a", "<i4"], ["b", "<f8"]],
    [["x", "|b1"], ["y", "<f4", [2]], ["z", "<M8[s]"]],
    [["x", "<i2"], ["n", [["p", "<f2"], ["q", "|V2", [2, 2]]]]],
    [["it's", "<c8"], ["m", "<m8[D]"], ["u", "|u1", [1]]],
    [["many", "|i1", [1001]]],
]


def python(form):
    return [tuple([f[0], python(f[1]) if isinstance(f[1], list) else f[1], *([tuple(f[2])] if len(f) > 2 else [])]) for f in form]


for form in records:
    dtype = np.dtype(python(form))
    for shape in [(), (1,), (3,), (2, 2), (0,)] if dtype.itemsize < 1000 else [(1,)]:
        n = int(np.prod(shape)) * dtype.itemsize
        raw = rng.integers(0, 100, n, dtype="uint8")
        a = np.frombuffer(raw.tobytes(), dtype).reshape(shape) if n else np.zeros(shape, dtype)
        a = a.copy()
        if "x" in dtype.names and dtype["x"] == bool and n:
            a["x"] = a["x"].view("u1") % 2
        for name, far in [("a", 7), ("b", 1.5), ("y", -2.25), ("z", 10**9)]:
            if name in dtype.names and n:
                a[name] = far
        case(a, form=json.dumps(form))
gaps = np.dtype({"names": ["a", "b"], "formats": ["<i4", "<f8"], "offsets": [0, 8], "itemsize": 24})
case(np.zeros(2, gaps), form=json.dumps({"names": ["a", "b"], "formats": ["<i4", "<f8"], "offsets": [0, 8], "itemsize": 24}))
case(np.ones((), gaps), form=json.dumps({"names": ["a", "b"], "formats": ["<i4", "<f8"], "offsets": [0, 8], "itemsize": 24}))

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
