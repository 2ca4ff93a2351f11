"""Layouts of N-dimensional arrays: the type, shape and strides of elements in memory."""

import json
import re
import struct
from dataclasses import dataclass

from .errors import ProtocolError
from .fields import Reader

_VERSION = 1
_MAX_DEPTH = 32
_LARGEST = (1 << 63) - 1

# The sizes of the elements of each kind. A V may have any size.
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "M": (8,), "m": (8,)}
_UNIT = r"\[[1-9]?[0-9]{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]"
_FORMAT = re.compile(rf"([<|])([biufcMmV])([1-9][0-9]{{0,8}})({_UNIT})?")


def item_size(kind, depth: int = 0) -> int:
    """Returns the bytes per element of a type: a string such as "<f4", "bfloat16", or a
    structured type, which is the descr list or the dict of NumPy. Raises ProtocolError."""
    if depth > _MAX_DEPTH:
        raise ProtocolError(f"array type: deeper than {_MAX_DEPTH} levels")
    if kind == "bfloat16":
        return 2
    if isinstance(kind, str):
        found = _FORMAT.fullmatch(kind)
        if found is None or (found[4] and found[2] not in "Mm") or ((size := int(found[3])) not in _SIZES.get(found[2], (size,))):
            raise ProtocolError(f"array type: got {kind[:100]!r}")
        return size
    if isinstance(kind, list) and kind:
        return sum(_field_size(f, depth) for f in kind)
    if isinstance(kind, dict):
        return _dict_size(kind, depth)
    raise ProtocolError(f"array type: got {str(kind)[:100]!r}")


def _field_size(described, depth: int) -> int:
    if not isinstance(described, list) or len(described) not in (2, 3) or not isinstance(described[0], str):
        raise ProtocolError(f"array type: field: got {str(described)[:100]!r}")
    return item_size(described[1], depth + 1) * _count(described[2] if len(described) == 3 else [])


def _count(shape) -> int:
    n = 1
    if not isinstance(shape, list) or not all(type(d) is int and d > 0 for d in shape):
        raise ProtocolError(f"array type: shape of a field: got {str(shape)[:100]!r}")
    for d in shape:
        n *= d
    if n > _LARGEST:
        raise ProtocolError(f"array type: shape of a field: got {n} elements")
    return n


def _dict_size(kind: dict, depth: int) -> int:
    names, formats, offsets, size = (kind.get(k) for k in ("names", "formats", "offsets", "itemsize"))
    lists = all(isinstance(v, list) for v in (names, formats, offsets))
    if set(kind) != {"names", "formats", "offsets", "itemsize"} or not lists or not len(names) == len(formats) == len(offsets) or type(size) is not int:
        raise ProtocolError(f"array type: got {str(kind)[:100]!r}")
    for name, form, offset in zip(names, formats, offsets, strict=True):
        end = item_size(_base(form), depth + 1) * _count(_sub(form))
        if not isinstance(name, str) or type(offset) is not int or not 0 <= offset <= size - end:
            raise ProtocolError(f"array type: field {str(name)[:100]!r} of {end} bytes at {offset} exceeds {size} bytes")
    if size < 1:
        raise ProtocolError("array type: itemsize: got 0")
    return size


def _is_sub(form) -> bool:
    """Reports whether a format of a dict is a base and the shape of a subarray."""
    return isinstance(form, list) and len(form) == 2 and isinstance(form[1], list) and all(type(d) is int for d in form[1])


def _base(form):
    return form[0] if _is_sub(form) else form


def _sub(form) -> list:
    return form[1] if _is_sub(form) else []


def for_numpy(kind):
    """Returns a type as numpy.dtype accepts it: a record as a dict, and bfloat16 of ml_dtypes."""
    if kind == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    if isinstance(kind, list):
        return _as_dict(kind)
    if isinstance(kind, dict):
        formats = [(for_numpy(_base(f)), tuple(_sub(f))) if _is_sub(f) else for_numpy(f) for f in kind["formats"]]
        return kind | {"formats": formats}
    return kind


def _as_dict(fields: list) -> dict:
    """Returns a descr list as a dict. NumPy would make fields of its gaps."""
    made, at = {"names": [], "formats": [], "offsets": []}, 0
    for f in fields:
        if f[0]:
            kind = for_numpy(f[1])
            made["names"].append(f[0])
            made["formats"].append((kind, tuple(f[2])) if len(f) == 3 else kind)
            made["offsets"].append(at)
        at += _field_size(f, 0)
    return made | {"itemsize": at}


def of_dtype(dtype) -> str | list | dict:
    """Returns the type of a numpy.dtype. Raises TypeError for one that cannot be shared."""
    if getattr(dtype, "names", None):
        formats, offsets = [], []
        for name in dtype.names:
            field, offset = dtype.fields[name][:2]
            base, shape = field.subdtype or (field, ())
            formats.append([of_dtype(base), list(shape)] if shape else of_dtype(base))
            offsets.append(offset)
        return {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
    kind = "bfloat16" if dtype.name == "bfloat16" else dtype.str
    try:
        item_size(kind)
    except ProtocolError as e:
        raise TypeError(f"array: got type {dtype}, want little-endian numbers, bools, times, bytes (V) or records of these") from e
    return kind


@dataclass
class Layout:
    """The elements of an array in memory."""

    type: str | list | dict
    offset: int  # of the element whose indices are all 0, in bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes

    @property
    def item_size(self) -> int:
        return item_size(self.type)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    def bounds(self) -> tuple[int, int]:
        """Returns the bytes of the elements: from the first of any to the end of the last."""
        low = high = self.offset
        if 0 in self.shape:
            return low, high
        for n, stride in zip(self.shape, self.strides, strict=True):
            low, high = low + min((n - 1) * stride, 0), high + max((n - 1) * stride, 0)
        return low, high + self.item_size

    def check(self, length: int) -> None:
        """Raises ProtocolError unless all elements are in memory of length bytes."""
        low, high = self.bounds()
        if low < 0 or high > length:
            raise ProtocolError(f"array: bytes {low} to {high} exceed the {length} bytes of its memory")

    def encode(self) -> bytes:
        name = (self.type if isinstance(self.type, str) else json.dumps(self.type, ensure_ascii=False)).encode()
        n = len(self.shape)
        if n > 255:
            raise ValueError(f"array: axes: got {n}, want at most 255")
        return struct.pack(f"<BBHIQ{n}Q{n}q", _VERSION, n, 0, len(name), self.offset, *self.shape, *self.strides) + name

    @classmethod
    def decode(cls, data: bytes) -> "Layout":
        r = Reader(data, "layout of an array")
        version, n = r("BB")
        r.reserved("H")
        if version != _VERSION:
            raise ProtocolError(f"layout of an array: version: got {version}, want {_VERSION}")
        length, offset = r("IQ")
        shape, strides = struct.unpack(f"<{n}Q", r.bytes(8 * n)), struct.unpack(f"<{n}q", r.bytes(8 * n))
        try:
            text = r.bytes(length).decode()
            kind = json.loads(text) if text[:1] in ("[", "{") else text
        except (ValueError, RecursionError) as e:
            raise ProtocolError("layout of an array: the type is neither text nor JSON") from e
        r.finish()
        made = cls(kind, offset, shape, strides)
        count = made.item_size
        for d in shape:
            count *= max(d, 1)
        if count > _LARGEST:
            raise ProtocolError(f"layout of an array: shape {shape} of {made.item_size} bytes each exceeds 2^63 bytes")
        return made
