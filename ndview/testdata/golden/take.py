"""Writes take.json: the results of np.take along an axis and of the flat array, in each mode.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/take.py > ndview/testdata/golden/take.json

An array is a view of elements 0, 1, 2, ...: its offset, shape and strides count
elements. A case is [array's offset, shape, strides, indices' dtype, shape, values,
axis (null: flat), mode, the result's values], without a result if NumPy
raises IndexError.
"""

import json

import numpy as np

LAST = 240  # elements below every view

r = np.random.default_rng(4)


def view():
    """Returns a strided view: sliced, reversed, transposed, repeated or empty."""
    while True:
        shape = r.integers(1, 6, r.integers(1, 5))
        if r.random() < 0.06:
            shape[r.integers(len(shape))] = 0
        if max(np.prod(np.maximum(shape, 1)), 1) <= LAST:
            break
    a = np.arange(LAST)[: np.prod(shape)].reshape(shape)
    a = a[tuple(slice(None, None, r.choice([1, 1, 1, -1, 2])) for _ in shape)]
    if r.random() < 0.4:
        a = a.transpose(r.permutation(a.ndim))
    if r.random() < 0.1:
        a = np.broadcast_to(a, (2, *a.shape))
    return a


def parts(a):
    at = np.arange(LAST).__array_interface__  # only for the item's size
    item = np.dtype(at["typestr"]).itemsize
    offset = int(a.reshape(-1)[0]) if a.size else 0
    return [offset, list(a.shape), [s // item for s in a.strides]]


cases = []
while len(cases) < 600:
    a = view()
    axis = None if r.random() < 0.2 else int(r.integers(-a.ndim, a.ndim))
    extent = a.size if axis is None else a.shape[axis]
    mode = str(r.choice(["raise", "raise", "wrap", "clip"]))
    dtype = str(r.choice(["int8", "int16", "int32", "int32", "int64", "int64", "uint8", "uint16", "uint32"]))
    shape = tuple(int(d) for d in r.integers(0 if r.random() < 0.1 else 1, 5, r.integers(0, 3)))
    reach = 0 if mode == "raise" and r.random() < 0.85 else 3
    low, high = -extent - reach, extent + reach
    if dtype.startswith("u"):
        low = 0
    indices = r.integers(low, max(high, low + 1), shape).astype(dtype)
    case = [*parts(a), dtype, list(shape), indices.ravel().tolist(), axis, mode]
    try:
        case.append(np.take(a, indices.astype(np.int64), axis, mode=mode).ravel().tolist())
    except IndexError:
        pass
    cases.append(case)

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
