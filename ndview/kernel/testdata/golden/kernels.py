"""Writes kernels.json: NumPy's results of operations that the tests write as kernels.

Run from the root of the repository:
    .venv/bin/python ndview/kernel/testdata/golden/kernels.py

A case is an operation, a dtype, the shapes of the operands and their bytes as hex
text, for a reduction the axes (null: all), and the shape and bytes of the result.
All values are small integers, so that no result depends on the order of additions.
"""

import json
from pathlib import Path

import numpy as np

r = np.random.default_rng(20261123)
ELEMENTWISE = {
    "maximum": np.maximum,
    "hinge": lambda a, b: np.where(a.astype(int) > b, a - b, 0).astype(a.dtype),
    "product": np.multiply,
}
REDUCTIONS = {
    "sum of squares": lambda x, axis: np.sum(x * x, axis=axis, dtype=x.dtype),
    "max": lambda x, axis: np.max(x, axis=axis, initial=0),
}
SHAPES = [[(5, 7), (5, 7)], [(3, 1, 4), (2, 1)], [(0, 3), (3,)], [(), (6,)], [(2, 70), (2, 1)]]
AXES = [((4, 6), None), ((4, 6), [0]), ((4, 6), [-1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), []), ((0, 3), [0]), ((3, 0), [0])]


def values(shape, dtype):
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return r.integers(low, 10, shape).astype(dtype)


cases = []


def case(operation, dtype, operands, result, axes=None):
    result = np.asarray(result)
    assert result.dtype == dtype, (operation, dtype, result.dtype)
    cases.append({
        "operation": operation, "dtype": dtype, "shapes": [o.shape for o in operands],
        "operands": [o.tobytes().hex() for o in operands], "axes": axes, "shape": result.shape, "result": result.tobytes().hex(),
    })


for dtype in ["int32", "uint8", "float32", "float64"]:
    for name, f in ELEMENTWISE.items():
        for shapes in SHAPES:
            if dtype == "uint8" and name == "hinge":
                continue  # C++ computes it in int
            a, b = (values(s, dtype) for s in shapes)
            case(name, dtype, [a, b], f(a, b))
    for name, f in REDUCTIONS.items():
        for shape, axes in AXES:
            x = values(shape, dtype)
            case(name, dtype, [x], f(x, None if axes is None else tuple(axes)), axes)

for name, f in REDUCTIONS.items():
    x = values((1, 9000), "uint8")  # several blocks per result
    case(name, "uint8", [x], f(x, (1,)), [1])

text = "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n"
Path(__file__).with_suffix(".json").write_text(text)
