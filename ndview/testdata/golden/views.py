"""Writes views.txt and overlaps.txt: the layouts and flags of NumPy's views, and which
arrays share memory:

    .venv/bin/python ndview/testdata/golden/views.py

views.txt holds blocks. The first line of one is an array of a pool of bytes:
"= dtype size shape/strides@offset". Then come its flags as bits, see flags(),
and lines "operation arguments > result", where the result is a layout, "copy
shape/strides" where NumPy copies, "!range" for an index outside its axis, or
"!shape" for any other error.

overlaps.txt holds lines "layout layout bit" (numpy.shares_memory of two arrays) and
"layout bit" (whether elements of one array share memory with each other). Layouts are "size shape/strides@offset".
"""

import pathlib
import random

import numpy
from numpy._core._multiarray_tests import internal_overlap

HERE = pathlib.Path(__file__).parent
rng = random.Random(20261121)
numbers = lambda values: ",".join(map(str, values))

# A pool that begins at a multiple of 64.
room = numpy.zeros(8192 + 64, "u1")
start = -room.__array_interface__["data"][0] % 64
pool = room[start : start + 8192]
origin = pool.__array_interface__["data"][0]


def layout(a):
    offset = a.__array_interface__["data"][0] - origin
    return f"{numbers(a.shape)}/{numbers(a.strides)}@{offset}"


def over(dtype, shape, strides, offset):
    return numpy.ndarray(shape, dtype, pool, offset, strides)


def attempt(do, a):
    """The result of an operation as a line says it."""
    try:
        v = do(a)
    except (IndexError, ValueError) as e:
        outside = "out of bounds for axis" in str(e) and not isinstance(e, numpy.exceptions.AxisError)
        return "!range" if outside else "!shape"
    low = v.__array_interface__["data"][0] - origin
    if v.size and not numpy.shares_memory(v, a):
        return f"copy {numbers(v.shape)}/{numbers(v.strides)}"
    if not 0 <= low <= pool.size:  # no elements: NumPy's pointer may be anywhere
        assert v.size == 0
        return f"{numbers(v.shape)}/{numbers(v.strides)}@0"
    return layout(v)


def bound(extent):
    choices = [None, 0, extent, -1, -extent, extent + 3, -extent - 2]
    return rng.choice(choices) if rng.random() < 0.5 else rng.randint(-extent - 1, extent + 1)


def random_key(extent):
    if rng.random() < 0.3:
        return rng.randint(-extent, extent - 1) if extent and rng.random() < 0.9 else extent
    step = rng.choice([None, None, 1, 1, 2, 3, -1, -2, -3, 7, -7])
    if rng.random() < 0.02:
        step = 0
    return slice(bound(extent), bound(extent), step)


def random_keys(a):
    keys = [random_key(d) for d in a.shape[: rng.randint(0, a.ndim)]]
    if rng.random() < 0.3:
        at = rng.randint(0, len(keys))
        after = len(keys) - at  # keys after an ellipsis belong to the last axes
        keys[at:] = [Ellipsis] + [random_key(d) for d in a.shape[a.ndim - after :]]
    while rng.random() < 0.25:
        keys.insert(rng.randint(0, len(keys)), None)
    if rng.random() < 0.03:
        keys += [slice(None)] * a.ndim + [0]
    if rng.random() < 0.02:
        keys += [Ellipsis]
    return tuple(keys)


def spell(key):
    if isinstance(key, slice):
        parts = [key.start, key.stop] + ([key.step] if key.step is not None else [])
        return ":".join("" if p is None else str(p) for p in parts)
    return {None: "new", Ellipsis: "..."}.get(key, str(key))


def random_array(dtype, aligned=True):
    """An array that several views lead to."""
    shape = [rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4]))]
    size = numpy.dtype(dtype).itemsize
    n = int(numpy.prod(shape))
    offset = rng.randint(0, 40) * size + (0 if aligned else rng.randint(0, size - 1))
    a = numpy.ndarray((n,), dtype, pool, offset).reshape(shape, order=rng.choice("CF"))
    for _ in range(rng.randint(0, 3)):
        try:
            choice = rng.randint(0, 4)
            if choice == 0:
                a = a[tuple(random_key(d) if rng.random() < 0.6 else slice(None) for d in a.shape)]
            elif choice == 1:
                a = a.transpose(rng.sample(range(a.ndim), a.ndim))
            elif choice == 2 and a.ndim:
                a = a[tuple(slice(None, None, rng.choice([-1, 1, 2])) for _ in a.shape)]
            elif choice == 3:
                a = numpy.expand_dims(a, rng.randint(0, a.ndim))
            elif choice == 4 and a.ndim < 4:
                a = numpy.broadcast_to(a, (rng.randint(1, 3),) + a.shape)
        except (IndexError, ValueError):
            pass
        if not isinstance(a, numpy.ndarray):  # an index of every axis gives a scalar
            return random_array(dtype, aligned)
    if not 0 <= a.__array_interface__["data"][0] - origin < pool.size:
        return random_array(dtype, aligned)
    return a


def random_shape(n):
    """Extents whose product is n, mostly, one perhaps -1."""
    shape = []
    left = max(n, 1)
    while left > 1 and len(shape) < 5:
        d = rng.choice([d for d in range(1, left + 1) if left % d == 0])
        shape.append(d)
        left //= d
    shape.append(left)
    if n == 0:
        shape.insert(rng.randint(0, len(shape)), 0)
    for _ in range(rng.choice([0, 0, 1, 2])):
        shape.insert(rng.randint(0, len(shape)), 1)
    if left == 1 and shape.count(1) and rng.random() < 0.5:
        shape.remove(1)
    if shape and rng.random() < 0.3:
        shape[rng.randrange(len(shape))] = -1
    if shape and rng.random() < 0.05:
        shape[rng.randrange(len(shape))] = rng.choice([-1, 0, 2, 7])
    return tuple(shape)


def random_axis(n):
    return rng.randint(-n, n - 1) if n and rng.random() < 0.93 else rng.choice([n, -n - 1])


DTYPES = ["u1", "i2", "f4", "f8", "c16", "V3", "V6"]


def operations(a):
    for _ in range(5):
        keys = random_keys(a)
        yield "index " + (" ".join(map(spell, keys)) or "()"), lambda a: a[keys + (Ellipsis,) * (Ellipsis not in keys)]
    for order in "CCFFA":
        shape = random_shape(a.size)
        yield f"reshape {order} {numbers(shape)}", lambda a: a.reshape(shape, order=order)
    for order in "CFAK":
        yield f"ravel {order}", lambda a: a.ravel(order)
    axes = [random_axis(a.ndim) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.5 and 1 in a.shape:
        axes = [a.shape.index(1)]
    yield f"squeeze {numbers(axes)}", lambda a: a.squeeze(tuple(axes))
    yield "squeeze ", lambda a: a.squeeze()
    expand = [random_axis(a.ndim + 2) for _ in range(2)]
    yield f"expand {numbers(expand)}", lambda a: numpy.expand_dims(a, expand)
    order = rng.sample(range(a.ndim), a.ndim)
    if rng.random() < 0.2:
        order = [random_axis(a.ndim) for _ in range(a.ndim + rng.choice([0, 0, 1]))]
    if order:
        yield f"transpose {numbers(order)}", lambda a: a.transpose(order)
    i, j = random_axis(a.ndim), random_axis(a.ndim)
    yield f"swap {i},{j}", lambda a: a.swapaxes(i, j)
    yield f"move {i},{j}", lambda a: numpy.moveaxis(a, i, j)
    wide = [rng.choice([d, d, 3]) if d == 1 else d for d in a.shape]
    wide = [rng.randint(0, 2) for _ in range(rng.randint(0, 2))] + wide
    if wide and rng.random() < 0.2:
        wide[rng.randrange(len(wide))] = rng.choice([-1, 0, 2])
    yield f"broadcast {numbers(wide)}", lambda a: numpy.broadcast_to(a, wide)
    dtype = rng.choice(DTYPES)
    yield f"view {dtype}", lambda a: a.view(dtype)


def flags(a):
    # Without farray, which is true in NumPy for every behaved array that is not in C
    # order, against its own documents.
    names = ["c_contiguous", "f_contiguous", "aligned", "fnc", "forc", "behaved", "carray"]
    return "".join("01"[bool(getattr(a.flags, name))] for name in names)


def views():
    lines, seen = [], set()
    for _ in range(420):
        dtype = rng.choice(DTYPES)
        a = random_array(dtype, aligned=rng.random() < 0.7)
        a = over(dtype, a.shape, a.strides, a.__array_interface__["data"][0] - origin)  # writeable
        lines.append(f"= {dtype} {a.itemsize} {layout(a)}")
        lines.append(f"flags > {flags(a)}")
        for line, do in operations(a):
            lines.append(f"{line} > {attempt(do, a)}")
    return lines


def random_strided():
    size = rng.choice([1, 2, 3, 4, 8])
    reach = rng.choice([12, 60, 300])
    step = rng.choice([1, 1, 2, 4, 6])
    shape = [rng.randint(1, 5) for _ in range(rng.randint(0, 4))]
    strides = [step * rng.randint(-reach // step, reach // step) for _ in shape]
    return over(f"V{size}", shape, strides, 4000 + rng.randint(0, 600))


def two_views():
    """Returns two views of one array, such as programs make."""
    shape = [rng.randint(2, 9) for _ in range(rng.randint(1, 3))]
    size = rng.choice([1, 2, 4, 8])
    whole = numpy.ndarray(shape, f"V{size}", pool[4000:])
    step = lambda d: slice(rng.randint(0, d - 1), None, rng.choice([1, 2, 3, 4]))
    part = lambda: whole[tuple(step(d) for d in shape)][tuple(slice(None, None, rng.choice([1, -1])) for _ in shape)]
    return part(), part().T


def overlaps():
    lines = []
    sized = lambda a: f"{a.itemsize} {layout(a)}"
    bit = lambda yes: "01"[bool(yes)]
    for i in range(2400):
        a, b = two_views() if i % 2 else (random_strided(), random_strided())
        lines.append(f"{sized(a)} {sized(b)} {bit(numpy.shares_memory(a, b))}")
    for _ in range(1200):
        a = random_strided()
        lines.append(f"{sized(a)} {bit(internal_overlap(a))}")
    return lines


def write(name, lines):
    text = "\n".join(dict.fromkeys(lines) if name == "overlaps.txt" else lines) + "\n"
    (HERE / name).write_text(text)
    print(name, len(lines), "lines,", len(text), "bytes")


write("views.txt", views())
write("overlaps.txt", overlaps())
