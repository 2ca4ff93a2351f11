"""The CUDA driver calls that sharing needs, through ctypes.

Memory is opened in a GPU's primary context, which CuPy, PyTorch and Numba use too.
"""

import contextlib
import ctypes
import functools
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

from .errors import CudaError

_FD = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", c_char * 64)]


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handles", c_int),
        ("location", _Location),
        ("win32", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", c_int)]


class Driver:
    """libcuda, opened by the first call of driver."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, name: str, *arguments) -> None:
        if code := getattr(self.lib, name)(*arguments):
            text = c_char_p()
            self.lib.cuGetErrorName(code, byref(text))
            raise CudaError(name, code, (text.value or b"unknown error").decode())


@functools.cache
def driver() -> Driver:
    return Driver()


@functools.cache
def gpus() -> tuple["GPU", ...]:
    """Returns the GPUs of this process; none without a driver."""
    try:
        cuda = driver()
    except (OSError, CudaError):
        return ()
    count = c_int()
    cuda("cuDeviceGetCount", byref(count))
    return tuple(GPU(i) for i in range(count.value))


class GPU:
    """A GPU's primary context, retained while this process lives."""

    def __init__(self, ordinal: int):
        self.ordinal = ordinal
        cuda, device, raw = driver(), c_int(), (c_char * 16)()
        cuda("cuDeviceGet", byref(device), ordinal)
        cuda("cuDeviceGetUuid_v2" if hasattr(cuda.lib, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", raw, device)
        self.device, self.uuid = device, raw.raw

    @functools.cached_property
    def context(self) -> c_void_p:
        context = c_void_p()
        driver()("cuDevicePrimaryCtxRetain", byref(context), self.device)
        return context

    @contextlib.contextmanager
    def current(self):
        """Returns the driver, with this GPU's context current on the calling thread."""
        cuda = driver()
        cuda("cuCtxPushCurrent_v2", self.context)
        try:
            yield cuda
        finally:
            cuda("cuCtxPopCurrent_v2", byref(c_void_p()))

    def synchronize(self) -> None:
        with self.current() as cuda:
            cuda("cuCtxSynchronize")

    def open_ipc(self, handle: bytes) -> int:
        address = c_uint64()
        with self.current() as cuda:
            cuda("cuIpcOpenMemHandle_v2", byref(address), _Handle.from_buffer_copy(handle), 1)
        return address.value

    def close_ipc(self, address: int) -> None:
        with self.current() as cuda:
            cuda("cuIpcCloseMemHandle", c_uint64(address))

    def open_fd(self, fd: int, size: int) -> int:
        """Maps memory of another process, which must only be read. The caller keeps fd."""
        memory = c_ulonglong()
        with self.current() as cuda:
            cuda("cuMemImportFromShareableHandle", byref(memory), c_void_p(fd), _FD)
            return self._map(cuda, memory, size, _READ_WRITE)

    def create(self, size: int) -> tuple[int, int, int]:
        """Allocates shareable memory. Returns its address, rounded size and descriptor."""
        wanted = _Properties(1, _FD, _Location(_DEVICE, self.ordinal))
        granule, memory, fd = c_size_t(), c_ulonglong(), c_int()
        with self.current() as cuda:
            cuda("cuMemGetAllocationGranularity", byref(granule), byref(wanted), 1)
            whole = -(-max(size, 1) // granule.value) * granule.value
            cuda("cuMemCreate", byref(memory), c_size_t(whole), byref(wanted), c_ulonglong(0))
            try:
                cuda("cuMemExportToShareableHandle", byref(fd), memory, _FD, c_ulonglong(0))
            except CudaError:
                cuda("cuMemRelease", memory)
                raise
            return self._map(cuda, memory, whole, _READ_WRITE), whole, fd.value

    def _map(self, cuda: Driver, memory: c_ulonglong, size: int, access: int) -> int:
        # The mapping keeps the memory alive, so the handle is released at once.
        address = c_uint64()
        try:
            cuda("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_ulonglong(0))
            try:
                cuda("cuMemMap", address, c_size_t(size), c_size_t(0), memory, c_ulonglong(0))
                try:
                    allowed = _Access(_Location(_DEVICE, self.ordinal), access)
                    cuda("cuMemSetAccess", address, c_size_t(size), byref(allowed), c_size_t(1))
                except CudaError:
                    cuda("cuMemUnmap", address, c_size_t(size))
                    raise
            except CudaError:
                cuda("cuMemAddressFree", address, c_size_t(size))
                raise
        finally:
            cuda("cuMemRelease", memory)
        return address.value

    def unmap(self, address: int, size: int) -> None:
        with self.current() as cuda:
            cuda("cuCtxSynchronize")
            cuda("cuMemUnmap", c_uint64(address), c_size_t(size))
            cuda("cuMemAddressFree", c_uint64(address), c_size_t(size))

    def copy(self, to: int, source: int, size: int) -> None:
        """Copies within the GPU's memory and waits until the copy is complete."""
        with self.current() as cuda:
            cuda("cuMemcpyDtoD_v2", c_uint64(to), c_uint64(source), c_size_t(size))
            cuda("cuCtxSynchronize")

    def read(self, address: int, into: memoryview) -> None:
        with self.current() as cuda:
            raw = (c_char * len(into)).from_buffer(into)
            cuda("cuMemcpyDtoH_v2", raw, c_uint64(address), c_size_t(len(into)))

    def write(self, address: int, data: bytes) -> None:
        with self.current() as cuda:
            cuda("cuMemcpyHtoD_v2", c_uint64(address), data, c_size_t(len(data)))

    def allocate(self, size: int) -> int:
        address = c_uint64()
        with self.current() as cuda:
            cuda("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        with self.current() as cuda:
            cuda("cuMemFree_v2", c_uint64(address))


def owner(address: int) -> GPU:
    """Returns the GPU of an address."""
    ordinal = c_uint()
    cuda = driver()
    cuda("cuPointerGetAttribute", byref(ordinal), 9, c_uint64(address))  # DEVICE_ORDINAL
    return gpus()[ordinal.value]
