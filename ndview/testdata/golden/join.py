"""Writes join.json: the results of NumPy's joins and splits.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/join.py > ndview/testdata/golden/join.json

As in take.py, arrays are [offset, shape, strides] in elements. A case is
[function, arrays, argument, axis, results], where each result is [shape,
values], without results if NumPy raises an error. The argument is a number or a list of
indices for splits, and null otherwise.
"""

import json

import numpy as np

LAST = 240
r = np.random.default_rng(6)
BASE = np.arange(LAST)


def layout(a):
    return [int(a.reshape(-1)[0]) if a.size else 0, list(a.shape), [s // BASE.itemsize for s in a.strides]]


def view(shape):
    """Returns an array of this shape at a random offset of the base, in a random layout."""
    order = r.permutation(len(shape)) if r.random() < 0.4 else np.arange(len(shape))
    steps = [int(r.choice([1, 1, -1, 2])) for _ in shape]
    room = [shape[i] * abs(steps[i]) for i in order]
    if np.prod(room, dtype=int) > LAST:
        steps, room = [1] * len(shape), [shape[i] for i in order]
    start = int(r.integers(0, LAST - np.prod(room, dtype=int) + 1))
    whole = BASE[start : start + np.prod(room, dtype=int)].reshape(room)
    back = np.argsort(order)
    return whole.transpose(back)[tuple(slice(None, None, s) for s in steps)]


def shape_of(n):
    return [int(r.integers(0 if r.random() < 0.05 else 1, 4)) for _ in range(n)]


def arrays(n_axes, vary):
    """Returns arrays that mostly fit: of one shape except along the axis vary."""
    shape = shape_of(n_axes)
    out = []
    for _ in range(r.integers(1, 4)):
        s = list(shape)
        if vary is not None and n_axes:
            s[vary % n_axes] = int(r.integers(0, 4))
        if r.random() < 0.05:
            s = shape_of(int(r.integers(0, 4)))
        out.append(view(s))
    return out


JOINS = {
    "Concatenate": lambda x, axis: np.concatenate(x, axis),
    "ConcatenateFlat": lambda x, axis: np.concatenate(x, None),
    "Stack": lambda x, axis: np.stack(x, axis),
    "VStack": lambda x, axis: np.vstack(x),
    "HStack": lambda x, axis: np.hstack(x),
    "DStack": lambda x, axis: np.dstack(x),
    "ColumnStack": lambda x, axis: np.column_stack(x),
    "AtLeast1D": lambda x, axis: np.atleast_1d(x[0]),
    "AtLeast2D": lambda x, axis: np.atleast_2d(x[0]),
    "AtLeast3D": lambda x, axis: np.atleast_3d(x[0]),
}
SPLITS = {
    "Split": np.split,
    "ArraySplit": np.array_split,
    "SplitAt": np.split,
    "HSplit": lambda a, n, axis: np.hsplit(a, n),
    "VSplit": lambda a, n, axis: np.vsplit(a, n),
    "DSplit": lambda a, n, axis: np.dsplit(a, n),
}

cases = []
for _ in range(40):
    for name, join in JOINS.items():
        n = int(r.integers(0, 4))
        axis = int(r.integers(-n - 1, n + 1))
        vary = {"VStack": 0, "HStack": min(1, n - 1), "DStack": 2, "ColumnStack": 1, "Stack": None}.get(name, axis)
        x = arrays(n, vary)
        case = [name, [layout(a) for a in x], None, axis]
        try:
            out = join(x, axis)
            case.append([[list(out.shape), out.ravel().tolist()]])
        except ValueError:
            pass
        cases.append(case)
    for name, split in SPLITS.items():
        n = int(r.integers(0 if r.random() < 0.2 else 1, 4))
        a = view([int(r.choice([0, 1, 2, 3, 4, 6])) for _ in range(n)])
        axis = int(r.integers(-n - 1, n + 1)) if r.random() < 0.2 or n == 0 else int(r.integers(-n, n))
        argument = int(r.integers(0 if r.random() < 0.3 else 1, 4))
        if name == "SplitAt":
            argument = r.integers(-7, 8, r.integers(0, 4)).tolist()
        case = [name, [layout(a)], argument, axis]
        try:
            case.append([[list(p.shape), p.ravel().tolist()] for p in split(a, argument, axis)])
        except (ValueError, IndexError, ZeroDivisionError):
            pass
        cases.append(case)
# After the others, whose random numbers stay the same.
for _ in range(15):
    for name, split in {"HSplitAt": np.hsplit, "VSplitAt": np.vsplit, "DSplitAt": np.dsplit}.items():
        a = view([int(r.choice([0, 1, 2, 3, 4, 6])) for _ in range(r.integers(0, 4))])
        indices = r.integers(-7, 8, r.integers(0, 4)).tolist()
        case = [name, [layout(a)], indices, 0]
        try:
            case.append([[list(p.shape), p.ravel().tolist()] for p in split(a, indices)])
        except ValueError:
            pass
        cases.append(case)

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
