"""The reference: the expected output of arrow2zarr for an input.

It is derived from pyarrow's schema and buffers alone, never from what the command
wrote: which columns are converted or refused, and every value and null.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pyarrow.types as types

import nested

INT64_MIN = np.iinfo(np.int64).min


def read(path: Path) -> pa.Table:
    with open(path, "rb") as f:
        magic = f.read(6)
    if magic == b"ARROW1":
        return pa.ipc.open_file(path).read_all()
    if magic[:4] == b"PAR1":
        return pa.parquet.read_table(path)
    return pa.ipc.open_stream(path).read_all()


def storage(t: pa.DataType) -> pa.DataType:
    """The type of the values that are stored: without extensions and runs."""
    return nested.stored(t)


def supported(t: pa.DataType) -> bool:
    """Reports whether the command supports columns of the type."""
    t = storage(t)
    if types.is_dictionary(t):
        value = storage(t.value_type)
        nested = types.is_dictionary(value) or types.is_null(value) or types.is_fixed_size_list(value)
        return not nested and supported(value)
    if types.is_fixed_size_list(t):
        inner = t.value_type
        while isinstance(inner, pa.BaseExtensionType):
            inner = inner.storage_type
        if types.is_run_end_encoded(inner):  # nested: only the runs of whole columns are decoded before
            return False
        if t.list_size == 0:
            return False
        return is_number(inner) or types.is_boolean(inner) or (types.is_fixed_size_list(inner) and supported(inner))
    return is_text(t) or is_binary(t) or types.is_null(t) or is_fixed(t)


def is_number(t: pa.DataType) -> bool:
    return types.is_integer(t) or types.is_floating(t)


def is_text(t: pa.DataType) -> bool:
    return types.is_string(t) or types.is_large_string(t) or types.is_string_view(t)


def is_binary(t: pa.DataType) -> bool:
    return types.is_binary(t) or types.is_large_binary(t) or types.is_binary_view(t)


def is_fixed(t: pa.DataType) -> bool:
    return (
        is_number(t)
        or types.is_boolean(t)
        or types.is_fixed_size_binary(t)
        or types.is_decimal(t)
        or types.is_date(t)
        or types.is_time(t)
        or types.is_timestamp(t)
        or types.is_duration(t)
    )


@dataclass
class Column:
    """The expected rows of a column. values has the dtype and shape of the Zarr array
    (dtype object for strings and bytes). Missing rows and missing elements hold the fill
    value."""

    values: np.ndarray
    missing: np.ndarray
    element_missing: np.ndarray | None  # for fixed-size lists, in the shape of values
    form: str  # array, nullable, categorical or null
    encoding: str | None  # anndata's encoding-type, if it defines one


def column(field: pa.Field, data: pa.ChunkedArray) -> Column:
    chunks = [rows(c) for c in data.chunks or [empty(data.type)]]
    values = np.concatenate([v for v, _, _ in chunks])
    missing = np.concatenate([m for _, m, _ in chunks])
    elements = None if chunks[0][2] is None else np.concatenate([e for _, _, e in chunks])

    t = storage(data.type)
    if types.is_null(t):
        form = "null"
    elif types.is_dictionary(t):
        form = "categorical"
    elif missing.any() or (elements is not None and elements[~missing].any()):
        form = "nullable"
    else:
        form = "array"
    encoded = None if form == "categorical" and not is_index(data) else encoding(t, form)
    return Column(values, missing, elements, form, encoded)


def is_index(data: pa.ChunkedArray) -> bool:
    """Reports whether anndata can make an index of the values of dictionaries: they have no
    axes of their own, and none is NaN or NaT, or equals another as 0 and -0 do."""
    for a in data.chunks or [empty(data.type)]:
        while isinstance(a, pa.ExtensionArray) or types.is_run_end_encoded(a.type):
            a = a.storage if isinstance(a, pa.ExtensionArray) else a.values
        values, missing, _ = rows(a.dictionary)
        values = values[~missing]
        if values.ndim > 1:
            return False
        if values.dtype.kind == "f" and (np.isnan(values).any() or len(set(np.signbit(values[values == 0]))) > 1):
            return False
        if values.dtype.kind in "mM" and np.isnat(values).any():
            return False
    return True


def empty(t: pa.DataType) -> pa.Array:
    stored = storage(t)
    if types.is_dictionary(stored):
        a = pa.DictionaryArray.from_arrays(pa.array([], stored.index_type), empty(stored.value_type))
    else:
        a = pa.nulls(0, stored)  # pa.array does not make runs
    return pa.ExtensionArray.from_storage(t, a) if isinstance(t, pa.BaseExtensionType) else a


def encoding(t: pa.DataType, form: str) -> str | None:
    if form == "categorical":
        return "categorical"
    if is_text(t):
        return {"array": "string-array", "nullable": "nullable-string-array"}[form]
    if form == "array" and (is_number(t) or types.is_boolean(t)):
        return "array"
    if form == "nullable" and types.is_integer(t):
        return "nullable-integer"
    if form == "nullable" and types.is_boolean(t):
        return "nullable-boolean"
    return None


def rows(a: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The values, missing rows and missing elements of one contiguous array."""
    while isinstance(a, pa.ExtensionArray):
        if isinstance(a.type, pa.FixedShapeTensorType):
            values, missing, elements = rows(a.storage)
            shape = (len(a), *a.type.shape)
            return values.reshape(shape), missing, elements.reshape(shape)
        a = a.storage
    if types.is_run_end_encoded(a.type):
        values = a.values.storage if isinstance(a.values, pa.ExtensionArray) else a.values
        return tuple(None if part is None else part[nested.runs(a)] for part in rows(values))
    if types.is_dictionary(a.type):
        # A null dictionary value is a missing row, like a null index.
        values = a.dictionary
        if types.is_string_view(values.type) or types.is_binary_view(values.type):  # which take does not know
            values = pa.array(values.to_pylist(), pa.string() if types.is_string_view(values.type) else pa.binary())
        return rows(values.take(a.indices))
    missing = np.asarray(a.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if types.is_fixed_size_list(a.type):
        k = a.type.list_size
        values = a.values.slice(a.offset * k, len(a) * k)
        while isinstance(values, pa.ExtensionArray):  # a tensor in a list has no axes of its own
            values = values.storage
        values, m, e = rows(values)
        # All elements of a missing inner list are missing.
        elements = m if e is None else e | m.reshape(-1, *[1] * (e.ndim - 1))
        shape = (len(a), k, *values.shape[1:])
        values, elements = values.reshape(shape), elements.reshape(shape)
        values[missing] = 0
        return values, missing, elements
    values = flat(a)
    values[missing] = fill(values.dtype, a.type)
    return values, missing, None


def fill(dtype: np.dtype, t: pa.DataType):
    if dtype == object:
        return "" if is_text(t) else b""
    return np.array(INT64_MIN).astype(dtype) if dtype.kind in "mM" else np.zeros((), dtype)


def flat(a: pa.Array) -> np.ndarray:
    """The values of an array that is not nested; missing values are undefined."""
    t, n = a.type, len(a)
    if types.is_null(t):
        return np.zeros(n, bool)
    if is_text(t) or is_binary(t):
        values = np.empty(n, object)
        values[:] = a.to_pylist()
        return values
    if types.is_boolean(t):
        return np.array(a.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)
    if types.is_fixed_size_binary(t) and not types.is_decimal(t):
        return buffer(a, "u1", t.byte_width)
    if types.is_decimal128(t) or types.is_decimal256(t):
        return buffer(a, "<u8", t.bit_width // 64)
    if types.is_decimal(t):
        return buffer(a, f"<i{t.bit_width // 8}")
    if types.is_date32(t):
        return buffer(a, "<i4").astype("<i8").view("<M8[D]")
    if types.is_date64(t):
        return buffer(a, "<i8").view("<M8[ms]")
    if types.is_time32(t):
        return buffer(a, "<i4").astype("<i8").view(f"<m8[{t.unit}]")
    if types.is_time64(t) or types.is_duration(t):
        return buffer(a, "<i8").view(f"<m8[{t.unit}]")
    if types.is_timestamp(t):
        return buffer(a, "<i8").view(f"<M8[{t.unit}]")
    return buffer(a, np.dtype(t.to_pandas_dtype()).newbyteorder("<"))


def buffer(a: pa.Array, dtype, width: int | None = None) -> np.ndarray:
    """A copy of the data buffer; if width is given, as rows of that length."""
    data = a.buffers()[1]
    n, per_row = len(a), 1 if width is None else width
    if n * per_row == 0:
        return np.zeros(n if width is None else (n, width), dtype)
    start = a.offset * per_row * np.dtype(dtype).itemsize
    values = np.frombuffer(data, dtype, count=n * per_row, offset=start).copy()
    return values if width is None else values.reshape(n, width)
