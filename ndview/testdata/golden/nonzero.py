"""Writes nonzero.json: the results of np.argwhere and np.compress.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/nonzero.py > ndview/testdata/golden/nonzero.json

A case is [mask's shape, order of its memory, elements, np.argwhere], or for
compress [array's offset, shape, strides, condition, axis (null: flat), result],
as in take.py, without a result if NumPy raises an error.
"""

import json

import numpy as np

LAST = 240
r = np.random.default_rng(8)
wheres, compresses = [], []
for _ in range(150):
    shape = r.integers(0 if r.random() < 0.1 else 1, 6, r.integers(1, 4))
    mask = r.random(shape) < r.choice([0, 0.1, 0.5, 1])
    order = str(r.choice(["C", "F"]))
    wheres.append([mask.shape, order, mask.astype(int).ravel(order).tolist(), np.argwhere(mask).ravel().tolist()])
while len(compresses) < 200:
    shape = r.integers(1, 6, r.integers(1, 4))
    a = np.arange(LAST)[: np.prod(shape)].reshape(shape)
    a = a[tuple(slice(None, None, r.choice([1, 1, -1, 2])) for _ in shape)]
    if r.random() < 0.4:
        a = a.transpose(r.permutation(a.ndim))
    axis = None if r.random() < 0.3 else int(r.integers(-a.ndim, a.ndim))
    extent = a.size if axis is None else a.shape[axis]
    condition = r.random(max(extent + int(r.choice([-2, -1, 0, 0, 0, 1])), 0)) < 0.5
    case = [int(a.reshape(-1)[0]), a.shape, [s // a.itemsize for s in a.strides], condition.astype(int).tolist(), axis]
    try:
        case.append(np.compress(condition, a, axis).ravel().tolist())
    except IndexError:
        pass
    compresses.append(case)

lines = [",\n".join(json.dumps([c if not isinstance(c, tuple) else [int(d) for d in c] for c in case], separators=(",", ":")) for case in part) for part in (wheres, compresses)]
print("[[\n" + "\n],[\n".join(lines) + "\n]]")
