"""Writes put.json: arrays after np.put, in each mode.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/put.py > ndview/testdata/golden/put.json

As in take.py, a case is [array's offset, shape, strides, indices' dtype, shape,
values, number of values, mode, all elements afterwards]. Value k is the
element 239 - k. It has no result if NumPy raises IndexError.
"""

import json

import numpy as np

LAST = 240

r = np.random.default_rng(5)
cases = []
while len(cases) < 400:
    shape = r.integers(1, 6, r.integers(1, 4))
    base = np.arange(LAST)
    whole = base[: np.prod(shape)].reshape(shape)
    a = whole[tuple(slice(None, None, r.choice([1, 1, 1, -1, 2])) for _ in shape)]
    if r.random() < 0.4:
        a = a.transpose(r.permutation(a.ndim))
    offset = int(a.reshape(-1)[0])
    strides = [s // base.itemsize for s in a.strides]
    mode = str(r.choice(["raise", "raise", "wrap", "clip"]))
    dtype = str(r.choice(["int8", "int16", "int32", "int64", "int64", "uint8", "uint32"]))
    n = int(r.choice([0, 1, 2, 5, 20, 60]))
    count = (n,) if n % 5 else (n // 5, 5)
    reach = 0 if mode == "raise" and r.random() < 0.8 else 3
    low = 0 if dtype.startswith("u") else -a.size - reach
    indices = r.integers(low, a.size + reach, count).astype(dtype)
    m = int(r.choice([0, 1, 1, 2, 3, n, n + 2]))
    case = [offset, list(a.shape), strides, dtype, list(count), indices.ravel().tolist(), m, mode]
    try:
        np.put(a, indices.astype(np.int64), 239 - np.arange(m), mode=mode)
        case.append(base[: np.prod(shape)].tolist())
    except IndexError:
        pass
    cases.append(case)

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
