"""Writes advanced.json: what NumPy reads and writes by keys with integer arrays and masks.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/advanced.py > ndview/testdata/golden/advanced.json

As in take.py, an array is [offset, shape, strides] in elements. A case is [array,
keys, result's shape, result's values], without a result if NumPy raises
IndexError. For an assignment it is [array, keys, values' shape, values, elements that
changed and their new values], without the last if NumPy raises ValueError or IndexError. Keys are
    ["at", i]  ["span", start, stop, step]  ["all"]  ["ellipsis"]  ["new"]
    ["ints", shape, values, dtype]  ["mask", shape, values]
A bound of null is absent.
"""

import json

import numpy as np

LAST = 240
ITEM = np.dtype(int).itemsize
r = np.random.default_rng(7)


def view():
    shape = r.integers(1, 5, r.integers(1, 5))
    if np.prod(shape) > LAST:
        return view()
    if r.random() < 0.05:
        shape[r.integers(len(shape))] = 0
    a = np.arange(LAST)[: np.prod(shape)].reshape(shape)
    a = a[tuple(slice(None, None, r.choice([1, 1, 1, -1, 2])) for _ in shape)]
    if r.random() < 0.4:
        a = a.transpose(r.permutation(a.ndim))
    return a


def layout(a):
    offset = int(a.reshape(-1)[0]) if a.size else 0
    return [offset, list(a.shape), [s // ITEM for s in a.strides]]


def ints(extent, shape):
    low, high = -extent, extent
    if r.random() < 0.03:
        low, high = -extent - 1, extent + 2
    return r.integers(low, max(high, low + 1), shape)


def keys(a):
    """Returns keys that mostly fit, for NumPy and as JSON."""
    out, axis = [], 0
    common = tuple(int(d) for d in r.integers(1, 4, r.integers(0, 3)))
    ellipsis = r.random() < 0.3
    while axis < a.ndim and r.random() < 0.85 or not out:
        extent = a.shape[axis] if axis < a.ndim else 1
        kind = r.choice(["at", "span", "all", "new", "ellipsis", "ints", "ints", "ints", "mask"])
        if kind == "ellipsis":
            if ellipsis:
                ellipsis = False
                out.append((Ellipsis, ["ellipsis"]))
                axis += int(r.integers(0, 2))
        elif kind == "new":
            out.append((None, ["new"]))
        elif kind == "all":
            out.append((slice(None), ["all"]))
            axis += 1
        elif kind == "at":
            i = int(ints(extent, ()))
            out.append((i, ["at", i]))
            axis += 1
        elif kind == "span":
            parts = [None if r.random() < 0.4 else int(r.integers(-5, 6)) for _ in range(2)]
            parts.append(None if r.random() < 0.4 else int(r.choice([-2, -1, 1, 2])))
            out.append((slice(*parts), ["span", *parts]))
            axis += 1
        elif kind == "ints":
            shape = tuple(1 if r.random() < 0.2 else d for d in common)[int(r.integers(0, len(common) + 1)) if r.random() < 0.2 else 0 :]
            if r.random() < 0.03:
                shape = (*shape, int(r.integers(0, 4)))
            dtype = str(r.choice(["int8", "int16", "int32", "int64", "int64"]))
            values = ints(extent, shape).astype(dtype)
            out.append((values, ["ints", list(shape), values.ravel().tolist(), dtype]))
            axis += 1
        else:
            n = int(r.integers(0 if r.random() < 0.1 else 1, 3))
            shape = a.shape[axis : axis + n]
            if r.random() < 0.03:
                shape = tuple(d + 1 for d in shape)
            mask = np.asarray(r.random(shape) < r.choice([0.3, 0.6, 1.0]))
            if len(common) <= 1 and r.random() < 0.7 and common:  # the same number as of the other indices
                mask = np.zeros(shape, bool)
                flat = mask.reshape(-1)
                flat[r.permutation(flat.size)[: common[0]]] = True
            out.append((mask, ["mask", list(shape), mask.astype(int).ravel().tolist()]))
            axis += n
    return tuple(k for k, _ in out), [j for _, j in out]


gets, sets = [], []
while len(gets) < 1200:
    a = view()
    k, j = keys(a)
    if not any(isinstance(x, np.ndarray) for x in k):
        continue
    case = [layout(a), j]
    try:
        out = a[k]
    except IndexError:
        gets.append(case)
        continue
    if out.size > 300:
        continue
    gets.append([*case, list(out.shape), out.ravel().tolist()])

    if len(k) == 1 and k[0].dtype == bool and k[0].ndim == a.ndim:
        shape = list(out.shape) if r.random() < 0.7 else []  # NumPy rejects more axes there
    else:
        shape = list(out.shape)[int(r.integers(0, out.ndim + 1)) if r.random() < 0.3 else 0 :]
        shape = [1 if r.random() < 0.1 else d for d in shape]
        if r.random() < 0.1 and out.ndim:  # NumPy rejects axes for one element
            shape = [1, *shape]
    if r.random() < 0.04 and shape:
        shape[-1] += 1
    values = 239 - np.arange(np.prod(shape, dtype=int)).reshape(shape) % LAST
    case = [*case, shape, values.ravel().tolist()]
    # A nonempty view's memory may lie before its first element.
    whole = np.arange(LAST)
    strides = np.array(a.strides)
    try:
        if a.size:
            low = sum((d - 1) * s for d, s in zip(a.shape, strides) if s < 0)
            start = case[0][0] + low // ITEM
            target = np.lib.stride_tricks.as_strided(whole[start:], a.shape, np.abs(strides))
            target = target[tuple(slice(None, None, -1 if s < 0 else 1) for s in strides)]
        else:
            target = whole[:0].reshape(a.shape)
        target[k] = values
        case.append([[i, int(v)] for i, v in enumerate(whole) if i != v])
    except (ValueError, IndexError):
        pass
    sets.append(case)

lines = [",\n".join(json.dumps(c, separators=(",", ":")) for c in part) for part in (gets, sets)]
print("[[\n" + "\n],[\n".join(lines) + "\n]]")
