"""Nested columns: what awkward reads from the output of arrow2zarr, and what pyarrow
reads from the input, both as plain Python values that can be compared.

Times are integers in their unit, decimals and fixed-size binaries lists of the numbers
that are stored, NaN and -0 are text.
"""

import math
import re
import warnings

import anndata
import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.types as types


def stored(t: pa.DataType) -> pa.DataType:
    """The type of the values that are stored: without extensions and runs."""
    while True:
        if isinstance(t, pa.BaseExtensionType):
            t = t.storage_type
        elif types.is_run_end_encoded(t):
            t = t.value_type
        else:
            return t


def is_list(t: pa.DataType) -> bool:
    return (
        types.is_list(t)
        or types.is_large_list(t)
        or types.is_list_view(t)
        or types.is_large_list_view(t)
        or types.is_fixed_size_list(t)
        or types.is_map(t)
    )


def expected(a: pa.Array) -> list:
    """The values of an array of pyarrow."""
    while isinstance(a, pa.ExtensionArray):
        a = a.storage
    t = a.type
    if types.is_run_end_encoded(t):
        values = expected(a.values)
        return [values[i] for i in runs(a)]
    if types.is_dictionary(t):
        values = wrapped(expected(a.dictionary), t.value_type, dictionary=True)
        return [None if i is None else values[i] for i in a.indices.to_pylist()]
    if types.is_union(t):
        children = [expected(a.field(i)) for i in range(t.num_fields)]
        if len(children) > 1:
            children = [wrapped(c, t.field(i).type) for i, c in enumerate(children)]
        code = {c: i for i, c in enumerate(t.type_codes)}
        # Not type_codes and offsets: their to_pylist ends the process.
        buffers, n = a.buffers(), len(a)
        codes = [code[c] for c in (np.frombuffer(buffers[1], "i1", n, a.offset).tolist() if n else [])]
        if t.mode == "dense":
            offsets = np.frombuffer(buffers[2], "<i4", n, 4 * a.offset).tolist() if n else []
            return [children[c][o] for c, o in zip(codes, offsets)]
        return [children[c][i] for i, c in enumerate(codes)]
    valid = a.is_valid().to_pylist()
    if types.is_map(t):
        names = ("key", "value")
        keys, items = expected(a.keys), expected(a.items)
        offsets = a.offsets.to_pylist()
        rows = [[dict(zip(names, kv)) for kv in zip(keys[b:e], items[b:e])] for b, e in zip(offsets, offsets[1:])]
    elif types.is_fixed_size_list(t):
        k = t.list_size
        values = expected(a.values.slice(a.offset * k, len(a) * k))
        rows = [values[i * k : (i + 1) * k] for i in range(len(a))]
    elif types.is_list_view(t) or types.is_large_list_view(t):
        values = expected(a.values)
        rows = [values[o : o + n] for o, n in zip(a.offsets.to_pylist(), a.sizes.to_pylist())]
    elif is_list(t):
        values, offsets = expected(a.values), a.offsets.to_pylist()
        rows = [values[b:e] for b, e in zip(offsets, offsets[1:])]
    elif types.is_struct(t):
        names = unique([t.field(i).name for i in range(t.num_fields)])
        children = [expected(a.field(i)) for i in range(t.num_fields)]
        rows = [dict(zip(names, row)) for row in zip(*children)] if children else [{}] * len(a)
    elif t == pa.month_day_nano_interval():
        names = ("months", "days", "nanoseconds")
        rows = [None if v is None else dict(zip(names, v)) for v in a.to_pylist()]
    elif types.is_decimal(t):
        width = t.bit_width
        dtype = f"<i{width // 8}" if width < 128 else "<u8"
        rows = fixed(a, dtype, 0 if width < 128 else width // 64)
    elif types.is_fixed_size_binary(t):
        rows = fixed(a, "u1", t.byte_width)
    elif types.is_temporal(t):
        dtype = "<i4" if types.is_date32(t) or types.is_time32(t) else "<i8"
        rows = fixed(a, dtype, 0)
    else:
        rows = [number(v) for v in a.to_pylist()]
    return [row if ok else None for row, ok in zip(rows, valid)]


def wrapped(values: list, t: pa.DataType, dictionary: bool = False) -> list:
    """The values of a type in records, where awkward has no union or dictionary of it."""
    t = stored(t)
    while types.is_union(t) and t.num_fields == 1:
        t = stored(t.field(0).type)
    indexed = not dictionary and types.is_dictionary(t) and not is_categorical(stored(t.value_type))
    if types.is_union(t) or indexed or dictionary and (types.is_dictionary(t) or types.is_null(t)):
        # A null of a dictionary is a missing code.
        return [None if v is None and dictionary else {"value": v} for v in values]
    return values


def is_categorical(t: pa.DataType) -> bool:
    """Whether awkward takes a dictionary with values of a type as a categorical."""
    return not (types.is_nested(t) or types.is_floating(t) or types.is_null(t) or types.is_dictionary(t) or t == pa.month_day_nano_interval())


def unique(names: list[str]) -> list[str]:
    taken = []
    for name in names:
        candidate, n = name, 2
        while candidate in taken:
            candidate, n = f"{name}_{n}", n + 1
        taken.append(candidate)
    return taken


def fixed(a: pa.Array, dtype: str, width: int) -> list:
    """The values of an array of fixed width as numbers, or as lists of width numbers."""
    per_row = max(width, 1)
    if len(a) * per_row == 0 or (dtype == "u1" and width == 0):
        return [[] if dtype == "u1" else 0] * len(a)
    start = a.offset * per_row * np.dtype(dtype).itemsize
    values = np.frombuffer(a.buffers()[1], dtype, len(a) * per_row, start)
    return (values.reshape(-1, width) if width or dtype == "u1" else values).tolist()


def read(group) -> list:
    """The values of a column's group, by anndata and awkward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = anndata.io.read_elem(group)
    if not isinstance(array, ak.Array):
        raise TypeError(f"anndata reads a {type(array).__name__}, expected an awkward array")
    reason = ak.validity_error(array)
    if reason and "is mergeable with" not in reason:  # two types of a union are alike
        raise ValueError(reason)
    return [plain(v) for v in ak.to_list(integers(array))]


def integers(array: ak.Array) -> ak.Array:
    """The array with times as integers: Python has neither nanoseconds nor all dates, and
    NaT would become None."""
    form, length, buffers = ak.to_buffers(array)
    text = re.sub(r'"(datetime64|timedelta64)\[\w+\]"', '"int64"', form.to_json())
    buffers = {k: v.view(np.int64) if v.dtype.kind in "mM" else v for k, v in buffers.items()}
    return ak.from_buffers(text, length, buffers)


def plain(v):
    """A value of awkward with NaN and -0 as text."""
    if isinstance(v, dict):
        return {k: plain(e) for k, e in v.items()}
    if isinstance(v, list):
        return [plain(e) for e in v]
    return number(v)


def number(v):
    """A float as text if Python compares it otherwise than by its value."""
    if isinstance(v, float):
        if v != v:
            return "nan"
        if v == 0 and math.copysign(1, v) < 0:
            return "-0"
    return v


def runs(a: pa.RunEndEncodedArray) -> np.ndarray:
    """The number of the run of each row. pyarrow decodes runs of few types only."""
    return np.searchsorted(a.run_ends.to_numpy(), np.arange(a.offset, a.offset + len(a)), "right")


def is_known(field: pa.Field) -> bool:
    """Reports whether pyarrow has arrays of the field's type: it lacks two kinds of intervals."""
    try:
        pa.nulls(0, field.type)
    except KeyError:
        return False
    except pa.ArrowNotImplementedError:  # a dictionary of an extension type, for example
        pass
    return all(is_known(field.type.field(i)) for i in range(field.type.num_fields))
