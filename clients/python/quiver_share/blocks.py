"""Shared allocations of a server, opened in this process."""

import ctypes
import fcntl
import mmap
import os

from . import cuda
from .errors import NoMechanism, ProtocolError
from .messages import CUDA_FD, CUDA_IPC, CUDA_POOL, MECHANISMS, MEMORY, Descriptor


class Block:
    """A mapping of a whole allocation: an address on the host, or on a GPU."""

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
            raise ProtocolError(f"a block by {MECHANISMS[d.mechanism]} with a descriptor {fd}")
        if d.mechanism == MEMORY:
            if (there := os.fstat(fd).st_size) < d.size:
                raise ProtocolError(f"a block of {d.size} bytes in a file of {there}")
            if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                raise ProtocolError("a block in a file that may shrink under its readers")
            # ACCESS_READ: the file is sealed against writing. Its pages are never
            # unmapped by hand: Python does that when the last view is gone.
            mapping = mmap.mmap(fd, d.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self.address = _address_of(mapping)
            self._close = mapping.close
        elif d.mechanism in (CUDA_IPC, CUDA_FD):
            self.gpu = next((g for g in cuda.gpus() if g.uuid == d.gpu), None)
            if self.gpu is None:
                raise NoMechanism(f"a block on the GPU {d.gpu.hex()}, which this process does not see")
            # _close knows no self: a finalizer holds it, and would keep the block.
            gpu, size = self.gpu, d.size
            if d.mechanism == CUDA_IPC:
                address = gpu.open_ipc(d.handle)
                self._close = lambda: gpu.close_ipc(address)
            else:
                address = gpu.open_fd(fd, size)
                self._close = lambda: gpu.unmap(address, size)
            self.address = address
        else:
            raise NoMechanism(f"a block by {MECHANISMS[d.mechanism]}, which this package neither lists nor opens")

    def finalizer(self):
        """What closes the mapping, for when the last reference is gone."""
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
    """Where a read-only mapping lies, which ctypes' own buffers refuse to tell."""
    view = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), ctypes.byref(view), 0)
    address = view.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address
