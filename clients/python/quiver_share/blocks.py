"""Shared allocations of a server that are open in this process."""

import ctypes
import fcntl
import mmap
import os

from . import cuda
from .errors import NoMechanism, ProtocolError
from .messages import CUDA_FD, CUDA_IPC, CUDA_POOL, MECHANISMS, MEMORY, Descriptor


class Block:
    """A mapping of a whole allocation, on the host or on a GPU."""

    def __init__(self, descriptor: Descriptor, fd: int | None):
        self.size = descriptor.size
        self.gpu: cuda.GPU | None = None
        self.address = 0
        self._close = lambda: None
        try:
            self._open(descriptor, fd)
        finally:
            if fd is not None:
                os.close(fd)

    def _open(self, d: Descriptor, fd: int | None) -> None:
        if (fd is None) == (d.mechanism in (CUDA_FD, MEMORY, CUDA_POOL)):
            raise ProtocolError(f"BLOCK: mechanism {MECHANISMS[d.mechanism]} with descriptor {fd}")
        if d.mechanism == MEMORY:
            if (there := os.fstat(fd).st_size) < d.size:
                raise ProtocolError(f"BLOCK: size of the file: got {there} bytes, want at least {d.size}")
            if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                raise ProtocolError("BLOCK: the file may shrink: want F_SEAL_SHRINK")
            # The file is sealed against writing, so it is mapped for reading only. Python
            # unmaps it when the last view is gone.
            mapping = mmap.mmap(fd, d.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self.address = _address_of(mapping)
            self._close = mapping.close
        elif d.mechanism in (CUDA_IPC, CUDA_FD):
            self.gpu = next((g for g in cuda.gpus() if g.uuid == d.gpu), None)
            if self.gpu is None:
                raise NoMechanism(f"BLOCK: this process does not have GPU {d.gpu.hex()}")
            # _close must not refer to self: the finalizer that holds it would keep the block.
            gpu, size = self.gpu, d.size
            if d.mechanism == CUDA_IPC:
                address = gpu.open_ipc(d.handle)
                self._close = lambda: gpu.close_ipc(address)
            else:
                address = gpu.open_fd(fd, size)
                self._close = lambda: gpu.unmap(address, size)
            self.address = address
        else:
            raise NoMechanism(f"BLOCK: this package does not support mechanism {MECHANISMS[d.mechanism]}")

    def finalizer(self):
        """Returns the function that closes the mapping."""
        return self._close


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _address_of(mapping: mmap.mmap) -> int:
    """Returns the address of a read-only mapping. ctypes accepts writable ones only."""
    view = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), ctypes.byref(view), 0)
    address = view.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address
