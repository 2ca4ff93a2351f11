"""The steps of programs.py in NumPy.

A result that NumPy lays out in another order than C is copied to C order, in which ndview
lays it out: views of it must share the same memory.
"""

import functools

import numpy as np

from program_words import dtype_of, ints, literal, numbers, real_of


def fresh(a):
    return np.array(a, order="C", copy=True)


def view_keys(w):
    keys = w.keys()
    return tuple(keys if any(k is Ellipsis for k in keys) else [*keys, Ellipsis])  # a view, of one element too


def read_only(a):
    a = a.view()
    a.flags.writeable = False
    return a


def ramp(dtype, shape, k, m, low):
    n = int(np.prod(ints(shape)))
    values = [float(i * k % m + low) for i in range(n) for _ in range(2 if dtype[0] == "c" else 1)]
    return literal(dtype, shape, values)


def assign(a, value):
    if isinstance(value, np.generic):
        value = np.asarray(value).astype(a.dtype)  # a strong scalar is cast as an array is
    a[...] = value


def fill(a, value):
    a[...] = np.asarray(value).astype(a.dtype) if isinstance(value, np.generic) else value


def full(w):
    a = np.empty(0, dtype_of(w.next()))
    value = w.operand()
    out = np.empty(w.ints(), a.dtype)
    fill(out, value)
    return out


def wrapped(indices, extent, mode):
    """Wraps indices at once: NumPy subtracts the extent repeatedly."""
    return indices % extent if mode == "wrap" and extent else indices


def take(a, indices, axis, mode):
    return fresh(np.take(a, wrapped(indices, a.size if axis is None else a.shape[axis], mode), axis, mode=mode))


def put(a, indices, values, mode):
    if not a.flags.writeable:
        raise ValueError("read-only")
    if not isinstance(values, np.ndarray):
        value, values = values, np.empty(1, a.dtype)
        assign(values, value)
    if values.size:  # NumPy rejects some empty values
        whole = a.reshape(-1).copy()
        np.put(whole, wrapped(indices, a.size, mode), values, mode)
        a[...] = whole.reshape(a.shape)


def compress(w):
    a, condition = w.array(), w.array()
    return np.compress(condition, a, w.int())


def pack(a, offset):
    return np.packbits(np.concatenate([np.zeros(offset, bool), a.reshape(-1) != 0]), bitorder="little")


def unpack(a, offset, n, invert, dtype):
    bits = np.unpackbits(a.reshape(-1).view("u1"), bitorder="little")[offset : offset + n]
    return (bits ^ invert).astype(dtype)


def clip(a, low, high):
    types = [x.dtype for x in (a, low, high) if hasattr(x, "dtype")]
    if not any(t.name == "bfloat16" for t in types):
        return np.clip(a, low, high)
    # ml_dtypes has no clip, and its result depends on the order of three types
    a = a.astype(functools.reduce(np.promote_types, sorted(types, key=lambda t: t.name != "bfloat16")))
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max,
              "any": np.any, "all": np.all, "count_nonzero": np.count_nonzero}


def reduce(w):
    name, a = w.next(), w.array()
    axes, keep, dtype = w.axes(), w.flag(), w.next()
    if axes is not None:
        axes = np.lib.array_utils.normalize_axis_tuple(axes, a.ndim)
    if name.startswith("arg"):  # NumPy reduces one axis or all
        axes = tuple(range(a.ndim)) if axes is None else tuple(sorted(axes))
        rest = [i for i in range(a.ndim) if i not in axes]
        joined = a.transpose(*rest, *axes).reshape(*(a.shape[i] for i in rest), int(np.prod([a.shape[i] for i in axes])))
        out = np.asarray(getattr(np, name)(joined, axis=-1))
        return np.expand_dims(out, axes) if keep else out
    if a.dtype.name == "bfloat16" and name in ("sum", "prod", "mean"):  # ml_dtypes rounds each step
        return np.asarray(REDUCTIONS[name](a.astype("f8"), axis=axes, keepdims=keep).astype(dtype_of("bfloat16") if dtype == "-" else dtype))
    options = {} if dtype == "-" else {"dtype": dtype_of(dtype)}
    return np.asarray(REDUCTIONS[name](a, axis=axes, keepdims=keep, **options))


def reduce_gaps(w):
    like = reduce(w)
    out = np.empty((3, *like.shape), like.dtype, order="F")[1, ...]
    out[...] = like
    return out


def equal_times(x, y):
    """Compares each pair: NumPy raises if one is beyond the other's unit."""

    def equal(p, q):
        try:
            return bool(p == q)
        except OverflowError:
            return False

    return np.array([equal(p, q) for p, q in zip(x.flat, y.flat)], bool).reshape(x.shape)


def all_equal(a, other, equal_nan):
    """zarr's NDBuffer.all_equal."""
    np.result_type(a, other)
    single = np.asarray(other)
    if single.size == 1 and real_of(single.dtype) is not None and single.dtype.kind != "c" and single.reshape(-1)[0] == 0:
        zero = single.astype(a.dtype)
        shape = np.broadcast_shapes(a.shape, zero.shape)
        return np.broadcast_to(a, shape).tobytes() == np.broadcast_to(zero, shape).tobytes()
    x, y = np.broadcast_arrays(a, other)
    same = equal_times(x, y) if x.dtype.kind in "mM" else x == y
    if equal_nan and (x.dtype.kind in "mM") == (y.dtype.kind in "mM"):
        both = [np.isnat(v) if v.dtype.kind in "mM" else np.isnan(v) if real_of(v.dtype) is not None else np.zeros(v.shape, bool) for v in (x, y)]
        same = same | (both[0] & both[1])
    return bool(np.all(same))


# Steps that make an array, or a view.
MAKES = {
    "index": lambda w: w.array()[view_keys(w)],
    "transpose": lambda w: w.array().transpose(w.ints()),
    "swap_axes": lambda w: w.array().swapaxes(w.int(), w.int()),
    "move_axis": lambda w: np.moveaxis(w.array(), w.int(), w.int()),
    "reshape": lambda w: (lambda a, order, shape: a.reshape(shape, order=order))(w.array(), w.next(), w.ints()),
    "ravel": lambda w: w.array().ravel(w.next()),
    "squeeze": lambda w: w.array().squeeze(),
    "expand": lambda w: np.expand_dims(w.array(), w.axes()),
    "broadcast": lambda w: np.broadcast_to(w.array(), w.ints()),
    "slice": lambda w: (lambda a, axis, start, stop: a[(slice(None),) * axis + (slice(start, stop), ...)])(w.array(), w.int(), w.int(), w.int()),
    "at_least": lambda w: (lambda a, n: [np.atleast_1d, np.atleast_2d, np.atleast_3d][n - 1](a))(w.array(), w.int()),
    "read_only": lambda w: read_only(w.array()),
    "view": lambda w: w.array().view(dtype_of(w.next())),
    "bits": lambda w: w.array().copy("C").view(dtype_of(w.next())),
    "new": lambda w: literal(w.next(), w.next(), numbers(w.next(), float)),
    "ramp": lambda w: ramp(w.next(), w.next(), w.int(), w.int(), w.int()),
    "full": full,
    "copy": lambda w: w.array().copy(w.next()),
    "askew": lambda w: w.array().copy("C"),
    "cast": lambda w: w.array().astype(dtype_of(w.next()), order=w.next(), casting=w.next()),
    "swapped": lambda w: w.array().copy("K").byteswap(inplace=True),  # as documented; NumPy's result is in order A
    "pack": lambda w: pack(w.array(), w.int()),
    "unpack": lambda w: unpack(w.array(), w.int(), w.int(), w.flag(), w.next()),
    "get": lambda w: fresh(w.array()[tuple(w.keys())]),
    "take": lambda w: take(w.array(), w.indices(), w.int(), w.next()),
    "take_flat": lambda w: take(w.array(), w.indices(), None, w.next()),
    "compress": lambda w: fresh(compress(w)),
    "compress_flat": lambda w: (lambda a, condition: np.compress(condition, a))(w.array(), w.array()),
    "nonzero": lambda w: fresh(np.nonzero(w.array())[w.int()]),
    "arg_where": lambda w: np.argwhere(w.array()),
    "concatenate": lambda w: (lambda axis: fresh(np.concatenate(w.rest(), axis)))(w.int()),
    "concatenate_flat": lambda w: np.concatenate(w.rest(), None),
    "stack": lambda w: (lambda axis: fresh(np.stack(w.rest(), axis)))(w.int()),
    "v_stack": lambda w: fresh(np.vstack(w.rest())),
    "h_stack": lambda w: fresh(np.hstack(w.rest())),
    "d_stack": lambda w: fresh(np.dstack(w.rest())),
    "column_stack": lambda w: fresh(np.column_stack(w.rest())),
    "split": lambda w: np.split(w.array(), w.int(), w.int())[w.int()],
    "array_split": lambda w: np.array_split(w.array(), w.int(), w.int())[w.int()],
    "split_at": lambda w: np.split(w.array(), w.ints(), w.int())[w.int()],
    "tril": lambda w: fresh(np.tril(w.array(), w.int())),
    "triu": lambda w: fresh(np.triu(w.array(), w.int())),
    "part": lambda w: fresh(getattr(np, w.next())(w.array())),
    "power": lambda w: fresh(np.power(w.array(), w.operand())),
    "unary": lambda w: fresh(getattr(np, w.next())(w.array())),
    "binary": lambda w: fresh(getattr(np, w.next())(w.operand(), w.operand())),
    "where": lambda w: fresh(np.where(w.array(), w.operand(), w.operand())),
    "clip": lambda w: fresh(clip(w.array(), w.operand(), w.operand())),
    "reduce": lambda w: fresh(reduce(w)),
    "reduce_gaps": reduce_gaps,
    "all_equal": lambda w: np.array(all_equal(w.array(), w.operand(), w.flag())),
    "equal": lambda w: (lambda a, b: np.array(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()))(w.array(), w.array()),
}


def into(out, result):
    """Writes a result to out as a ufunc does, after reading the operands."""
    if not out.flags.writeable:
        raise ValueError("read-only")
    if np.broadcast_shapes(out.shape, result.shape) != out.shape:
        raise ValueError("shape")
    np.copyto(out, result, casting="same_kind")


def exactly_into(out, result):
    if result.shape != out.shape or result.dtype != out.dtype:
        raise ValueError("another shape or type")
    into(out, result)


def swap(a):
    if not a.flags.writeable:
        raise ValueError("read-only")
    a.byteswap(inplace=True)


def fill_where(a, mask):
    if not (a.flags.writeable and a.flags.c_contiguous and mask.flags.c_contiguous):
        raise ValueError("read-only, or with gaps")
    raw = a.reshape(len(a), -1).view("u1") if a.size else a.view("u1")
    if a.size:
        raw[mask] = np.resize(np.arange(1, 9, dtype="u1"), raw.shape[1])


def triangle_in(keep):
    def step(w):
        a = w.array()
        if a.ndim < 2:
            raise ValueError("axes")
        a[...] = keep(a, w.int())

    return step


# Steps that change their first array.
CHANGES = {
    "show": lambda w: w.array(),
    "assign": lambda w: assign(w.array(), w.operand()),
    "fill": lambda w: fill(w.array(), w.operand()),
    "zero": lambda w: assign(w.array(), np.zeros((), w.first.dtype)),
    "swap": lambda w: swap(w.array()),
    "set": lambda w: set_keys(w.array(), w.operand(), tuple(w.keys())),
    "fill_where": lambda w: fill_where(w.array(), w.array()),
    "put": lambda w: put(w.array(), w.indices(), w.operand(), w.next()),
    "tril_in": triangle_in(np.tril),
    "triu_in": triangle_in(np.triu),
    "unary_into": lambda w: into(w.array(), np.asarray(getattr(np, w.next())(w.array()))),
    "binary_into": lambda w: into(w.array(), np.asarray(getattr(np, w.next())(w.operand(), w.operand()))),
    "where_into": lambda w: into(w.array(), np.where(w.array(), w.operand(), w.operand())),
    "clip_into": lambda w: into(w.array(), np.asarray(clip(w.array(), w.operand(), w.operand()))),
    "reduce_into": lambda w: exactly_into(w.array(), reduce(w)),
}


def set_keys(a, value, keys):
    if isinstance(value, np.generic):
        value = np.asarray(value).astype(a.dtype)
    a[tuple(k.copy() if isinstance(k, np.ndarray) else k for k in keys)] = value  # NumPy writes to masks that it reads
