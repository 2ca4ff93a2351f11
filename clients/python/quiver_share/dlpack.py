"""Export of arrays as capsules of DLPack 1.0."""

import ctypes
import gc
import itertools
import re
import sys
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object

from .layout import Layout

CPU, CUDA = 1, 2
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4


class _Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class _Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _Device),
        ("ndim", c_int32),
        ("dtype", _Type),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("version", _Version), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor)]


_DELETER = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_numbers = itertools.count(1)
_held: dict[int, tuple] = {}  # what each tensor refers to, by its manager's number


@_DELETER
def _delete(managed) -> None:
    _held.pop(managed.contents.manager, None)


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [py_object, c_char_p]
_NAME = b"dltensor_versioned"


# A destructor in Python cannot run while an exception is on its way, as it is when a
# consumer refuses a capsule. So capsules have none: each garbage collection drops those
# to which no other object refers.
_capsules: dict[int, object] = {}


def _drop_unused(phase: str, _info: dict) -> None:
    for number in list(_capsules) if phase == "start" else []:
        if sys.getrefcount(_capsules[number]) > 2:  # of the dict and the argument
            continue
        capsule = _capsules.pop(number)
        if _is_valid(capsule, _NAME):  # a consumer renames the capsule, and calls the deleter later
            _held.pop(number, None)


gc.callbacks.append(_drop_unused)


def _type(kind) -> _Type:
    if kind == "bfloat16":
        return _Type(_BFLOAT, 16, 1)
    found = re.fullmatch(r"[<|]([iufcb])(\d+)", kind) if isinstance(kind, str) else None
    if found is None:
        raise BufferError(f"DLPack cannot represent {kind}")
    return _Type(_CODES[found[1]], 8 * int(found[2]), 1)


def capsule(layout: Layout, address: int, owner, device: int, ordinal: int) -> object:
    """Returns a capsule that keeps owner until a consumer's deleter runs, or the first
    garbage collection after the capsule was dropped unused. Raises BufferError if DLPack
    cannot represent the type or the strides."""
    kind, size, n = _type(layout.type), layout.item_size, len(layout.shape)
    if any(stride % size for d, stride in zip(layout.shape, layout.strides, strict=True) if d > 1) and layout.size:
        raise BufferError(f"DLPack cannot represent strides {layout.strides} of elements of {size} bytes")
    shape, strides = (c_int64 * max(n, 1))(*layout.shape), (c_int64 * max(n, 1))(*(s // size for s in layout.strides))
    number = next(_numbers)
    tensor = _Tensor(address or None, _Device(device, ordinal), n, kind, shape, strides, 0)
    managed = _Managed(_Version(1, 0), number, ctypes.cast(_delete, c_void_p).value, _READ_ONLY, tensor)
    _held[number] = (owner, managed, shape, strides)
    _capsules[number] = made = _new(ctypes.addressof(managed), _NAME, None)
    return made
