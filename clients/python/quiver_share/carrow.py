"""Nodes as structs of the Arrow C Data and C Device Data Interfaces, in the capsules
with which Python libraries exchange them."""

import ctypes
import itertools
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_void_p, py_object

import pyarrow as pa

from .nodes import Node

CPU, CUDA = 1, 2


class ArrowArray(ctypes.Structure):
    pass


_RELEASE = ctypes.CFUNCTYPE(None, POINTER(ArrowArray))

ArrowArray._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", POINTER(ArrowArray)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class ArrowDeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", ArrowArray),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    ]


# The objects that exported structs refer to, by the number in private_data. Consumers
# may move structs, so their addresses are no keys.
_held: dict[int, tuple] = {}
_numbers = itertools.count(1)


@_RELEASE
def _release(pointer):
    array = pointer.contents
    for i in range(array.n_children):
        _release_one(array.children[i].contents)
    if array.dictionary:
        _release_one(array.dictionary.contents)
    _held.pop(array.private_data, None)
    array.release = None


def _release_one(array: ArrowArray) -> None:
    if array.release:
        _RELEASE(array.release)(byref(array))


def _fill(array: ArrowArray, node: Node, owner, upload) -> None:
    """Fills the struct of a node. owner lives until the struct is released."""
    addresses = [address or None for address, _ in node.buffers]
    storage = node.type
    while isinstance(storage, pa.BaseExtensionType):
        storage = storage.storage_type
    if pa.types.is_string_view(storage) or pa.types.is_binary_view(storage):
        # One more buffer holds the sizes of the buffers that views point into.
        sizes = b"".join(size.to_bytes(8, "little") for _, size in node.buffers[2:])
        address, owner = upload(sizes, owner)
        addresses.append(address)
    buffers = (c_void_p * max(len(addresses), 1))(*addresses)
    inner = [ArrowArray() for _ in node.children]
    for child, described in zip(node.children, inner, strict=True):
        _fill(described, child, owner, upload)
    children = (POINTER(ArrowArray) * max(len(inner), 1))(*(ctypes.pointer(c) for c in inner))
    dictionary = None
    if node.dictionary is not None:
        dictionary = ArrowArray()
        _fill(dictionary, node.dictionary, owner, upload)
        array.dictionary = ctypes.pointer(dictionary)
    array.length, array.null_count, array.offset = node.length, node.null_count, 0
    array.n_buffers, array.buffers = len(addresses), ctypes.cast(buffers, POINTER(c_void_p))
    array.n_children, array.children = len(inner), ctypes.cast(children, POINTER(POINTER(ArrowArray)))
    number = next(_numbers)
    _held[number] = (owner, buffers, children, inner, dictionary)
    array.private_data = number
    array.release = ctypes.cast(_release, c_void_p).value


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [c_void_p, c_char_p]
_DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)
_capsules: dict[int, ctypes.Structure] = {}


def _capsule(struct: ctypes.Structure, name: bytes) -> object:
    address = ctypes.addressof(struct)
    _capsules[address] = struct
    return _new(address, name, ctypes.cast(_destructors[name], c_void_p))


def _destroy(name: bytes, capsule: int) -> None:
    struct = _capsules.pop(_pointer(capsule, name))
    _release_one(struct.array if isinstance(struct, ArrowDeviceArray) else struct)


_destructors = {
    name: _DESTRUCTOR(lambda capsule, name=name: _destroy(name, capsule)) for name in (b"arrow_array", b"arrow_device_array")
}


def host_upload(data: bytes, owner):
    """Copies bytes to host memory. Returns the address, and an owner of it and owner."""
    kept = ctypes.create_string_buffer(data, max(len(data), 1))
    return ctypes.addressof(kept), (owner, kept)


def array_capsule(node: Node, owner) -> object:
    array = ArrowArray()
    _fill(array, node, owner, host_upload)
    return _capsule(array, b"arrow_array")


def device_capsule(node: Node, owner, kind: int, ordinal: int, upload) -> object:
    array = ArrowDeviceArray(device_id=ordinal, device_type=kind)
    _fill(array.array, node, owner, upload)
    return _capsule(array, b"arrow_device_array")
