"""Writes selections.json: what zarr-python reads and writes by random selections.

Run with zarr 3.4.2. Each array holds 0, 1, 2, ... in C order. A write stores -1, -2, ...
in C order of the selection. Where an element is selected more than once, zarr-python
does not define which value stays; the cases have the last one, as NumPy does.
"""

import json
import random
from pathlib import Path

import numpy as np
import zarr

random.seed(22)


def axis_slice(n):
    bound = lambda: random.choice([None, random.randint(-n - 2, n + 2)])
    return dict(slice=[bound(), bound(), random.choice([None, 1, 1, 2, 3, 7])])


def axis_key(n, kinds):
    kind = random.choice(kinds)
    if kind == "at" and n:
        return dict(at=random.randrange(-n, n))
    if kind == "list" and n:
        return dict(list=[random.randrange(-n, n) for _ in range(random.randint(1, n + 2))])
    if kind == "mask":
        return dict(mask=[random.random() < 0.5 for _ in range(n)])
    return axis_slice(n)


def python_key(key):
    if key == "...":
        return Ellipsis
    if "slice" in key:
        return slice(*key["slice"])
    if "mask" in key:
        return np.array(key["mask"], dtype=bool)
    return key["at"] if "at" in key else np.array(key["list"], dtype=np.int64)


def keys_of(case):
    return tuple(python_key(k) for k in case["keys"])


def selector(array, case):
    kind = case["kind"]
    if kind == "basic":
        return array, keys_of(case)
    if kind == "orthogonal":
        return array.oindex, keys_of(case)
    if kind == "blocks":
        return array.blocks, keys_of(case)
    if kind == "points":
        return array.vindex, tuple(np.array(c, dtype=np.int64).reshape(case["shape"]) for c in case["points"])
    return array.vindex, np.array(case["mask"], dtype=bool).reshape(case["array"])


def make(case):
    shards = case["shards"] or None
    a = zarr.create_array({}, shape=case["array"], chunks=case["chunks"], shards=shards, dtype="int32")
    a[...] = np.arange(a.size, dtype="int32").reshape(a.shape)
    return a


def random_case():
    axes = random.randint(1, 3)
    shape = [random.randint(1, [40, 9, 6][axes - 1]) for _ in range(axes)]
    chunks = [random.randint(1, n) for n in shape]
    shards = [c * random.randint(1, 3) for c in chunks] if random.random() < 0.4 else []
    case = dict(array=shape, chunks=chunks, shards=shards)
    kind = case["kind"] = random.choice(["basic", "basic", "orthogonal", "orthogonal", "points", "mask", "blocks"])
    if kind == "basic":
        keys = [axis_key(n, ["at", "slice"]) for n in shape]
    elif kind == "orthogonal":
        keys = [axis_key(n, ["at", "slice", "list", "mask"]) for n in shape]
    elif kind == "blocks":
        counts = [-(-n // c) for n, c in zip(shape, shards or chunks)]
        keys = []
        for n in counts:
            k = axis_key(n, ["at", "slice"])
            if "slice" in k:
                # zarr-python does not clamp the bounds of blocks as Python does.
                k["slice"] = [b if b is None else max(-n, min(b, n)) for b in k["slice"][:2]] + [None]
            keys.append(k)
    if kind == "points":
        case["shape"] = random.choice([[random.randint(0, 12)], [random.randint(1, 4), random.randint(1, 4)]])
        count = int(np.prod(case["shape"]))
        case["points"] = [[random.randrange(-n, n) for _ in range(count)] for n in shape]
    elif kind == "mask":
        case["mask"] = [random.random() < 0.3 for _ in range(int(np.prod(shape)))]
    else:
        if kind == "basic" and random.random() < 0.3:
            keys[random.randrange(axes)] = "..."
        elif random.random() < 0.2:
            keys = keys[: random.randint(1, axes)]
        case["keys"] = keys
    return case


def jsonable(array):
    return np.asarray(array).reshape(-1).tolist()


cases, errors = [], 0
while len(cases) < 500:
    case = random_case()
    a = make(case)
    try:
        where, key = selector(a, case)
        got = np.asarray(where[key])
        written = -1 - np.arange(got.size, dtype="int32").reshape(got.shape)
        where[key] = written if got.shape else written[()]
    except Exception as e:
        errors += 1
        print(case, repr(e))
        continue
    after = np.arange(a.size, dtype="int32")
    after[got.reshape(-1)] = written.reshape(-1)
    if len(set(jsonable(got))) == got.size:
        assert jsonable(a[...]) == jsonable(after), case
    case["result"], case["values"], case["after"] = list(got.shape), jsonable(got), jsonable(after)
    cases.append(case)
print(errors, "cases failed in zarr-python")
lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
Path(__file__).with_suffix(".json").write_text(f"[\n{lines}\n]\n")
