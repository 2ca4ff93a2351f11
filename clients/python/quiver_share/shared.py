"""Shared memory of a server: one allocation with the bodies of a table."""

import ctypes
import mmap
import os

from . import cuda
from .messages import CUDA_FD, MEMORY, Descriptor
from .process import current_process


def align(n: int) -> int:
    return -(-n // 64) * 64


class HostMemory:
    """A memory file, which finish seals."""

    mechanism, gpu = MEMORY, None

    def __init__(self, size: int):
        import fcntl

        self.size = max(align(size), mmap.PAGESIZE)
        self.fd = os.memfd_create("quiver-share", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._mapping = mmap.mmap(self.fd, self.size)

    def write(self, at: int, source: memoryview) -> None:
        self._mapping[at : at + len(source)] = source

    def view(self, at: int, size: int) -> memoryview:
        return memoryview(self._mapping)[at : at + size]

    def finish(self) -> None:
        """Seals the memory against writes, by this process too."""
        import fcntl

        self._mapping.close()
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)

    def close(self) -> None:
        os.close(self.fd)


class GPUMemory:
    """Memory of a GPU with a file descriptor that other processes open."""

    mechanism = CUDA_FD

    def __init__(self, gpu: cuda.GPU, size: int):
        self.gpu = gpu
        self.address, self.size, self.fd = gpu.create(size)

    def copy(self, at: int, source: int, size: int) -> None:
        self.gpu.copy(self.address + at, source, size)

    def to_host(self, size: int) -> HostMemory:
        """Copies the bytes for clients that cannot open memory of this GPU."""
        host = HostMemory(size)
        copied = bytearray(size)
        self.gpu.read(self.address, memoryview(copied))
        host.write(0, memoryview(copied))
        host.finish()
        return host

    def close(self) -> None:
        self.gpu.unmap(self.address, self.size)
        os.close(self.fd)


def descriptor(memory: HostMemory | GPUMemory, sequence: int) -> Descriptor:
    gpu = memory.gpu.uuid if memory.gpu is not None else bytes(16)
    return Descriptor(memory.mechanism, current_process(), memory.size, 0, memory.size, gpu, sequence)


def address_of(view: memoryview) -> int:
    """Returns the address of writable memory."""
    return ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view)) if len(view) else 0
