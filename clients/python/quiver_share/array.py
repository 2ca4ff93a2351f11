"""N-dimensional arrays that a client reads in place."""

import ctypes
from types import SimpleNamespace

from . import dlpack
from .batch import _BodyLocator, _CopyOwner, _LeasedMemory, gpu_of, lease_of
from .connection import Connection, Lease
from .cuda import GPU
from .errors import ProtocolError
from .layout import Layout, for_numpy
from .messages import Batch as BatchMessage


class Array(_LeasedMemory):
    """An array with the dtype, shape and strides that its publisher gave it. Read-only.

    On the host, NumPy shows it in place (numpy.asarray, to_numpy); on a GPU, CuPy,
    PyTorch and others do (__cuda_array_interface__, __dlpack__).
    """

    def __init__(self, lease: Lease, gpu: GPU | None, address: int, extent: int, layout: Layout):
        super().__init__(lease, gpu)
        self._address, self._extent, self._layout = address, extent, layout
        self.shape, self.strides = layout.shape, layout.strides
        self.itemsize, self.size, self.ndim = layout.item_size, layout.size, len(layout.shape)

    def __repr__(self) -> str:
        return f"<Array of {self.typestr or self._layout.type}, shape {self.shape} on {self.device}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("the array has no axes")
        return self.shape[0]

    @property
    def dtype(self):
        """The type as a numpy.dtype. A bfloat16 needs ml_dtypes."""
        import numpy

        return numpy.dtype(for_numpy(self._layout.type))

    @property
    def typestr(self) -> str | None:
        """The type in NumPy's array protocol; None of records and bfloat16."""
        return self._layout.type if isinstance(self._layout.type, str) and self._layout.type != "bfloat16" else None

    @property
    def address(self) -> int:
        """The address of the element whose indices are all 0; 0 of an empty array."""
        self._checked_lease()
        return self._address + self._layout.offset if self._extent else 0

    def _interface(self) -> dict:
        if self.typestr is None:
            raise AttributeError(f"the array interface cannot represent {self._layout.type}: use to_numpy or __dlpack__")
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, True), "strides": self.strides, "version": 3}

    @property
    def __array_interface__(self) -> dict:
        if self.gpu is not None:
            raise AttributeError(f"the array is on {self.device}: use to_host")
        return self._interface() | ({} if self._extent else {"data": (1, True)})  # NumPy wants an address, and reads nothing

    @property
    def __cuda_array_interface__(self) -> dict:
        if self.gpu is None:
            raise AttributeError("the array is on the host: use to_numpy")
        return self._interface()

    def __array__(self, dtype=None, copy=None):
        if self.gpu is not None:
            raise TypeError(f"the array is on {self.device}: use to_numpy to copy it")
        shown = self.to_numpy()
        if dtype is not None and dtype != shown.dtype:
            if copy is False:
                raise ValueError(f"the array is {shown.dtype}: {dtype} needs a copy")
            return shown.astype(dtype)
        return shown.copy() if copy else shown

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CPU, 0) if self.gpu is None else (dlpack.CUDA, self.gpu.ordinal)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Returns a capsule of DLPack 1.0, which can say that the memory is read-only.
        The bytes are complete, so no stream needs to wait."""
        lease = self._checked_lease()
        if max_version is None or max_version[0] < 1:
            raise BufferError("the array is read-only, which DLPack can say from version 1.0 on")
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the array is shown in place only: use to_host for a copy")
        return dlpack.capsule(self._layout, self.address, lease, *self.__dlpack_device__())

    def to_numpy(self):
        """Returns a read-only numpy.ndarray, in place on the host or a copy of a GPU's."""
        import numpy

        if self.gpu is not None:
            return self.to_host().to_numpy()
        memory = numpy.empty(0, "u1")
        if self._extent:
            # The namespace keeps the lease as long as any view of the memory lives.
            whole = {"shape": (self._extent,), "typestr": "|u1", "data": (self._address, True), "version": 3}
            memory = numpy.asarray(SimpleNamespace(__array_interface__=whole, lease=self._checked_lease()))
        memory.flags.writeable = False
        return numpy.ndarray(self.shape, self.dtype, memory, self._layout.offset if self._extent else 0, self.strides)

    def to_host(self) -> "Array":
        """Returns a copy on the host, with the same strides."""
        self._checked_lease()
        owner, address = _CopyOwner(), 0
        if self._extent:
            raw = self._bytes(self._address, self._extent)
            owner.kept.append(raw)
            address = ctypes.addressof((ctypes.c_char * self._extent).from_buffer(raw))
        return Array(owner, None, address, self._extent, self._layout)


def array(connection: Connection, message: BatchMessage) -> Array:
    lease = lease_of(connection, message)
    if len(message.messages) != 1 or not message.messages[0].metadata or len(message.messages[0].regions) > 1:
        raise ProtocolError("BATCH of an array: want one message with a layout, in one region")
    (m,) = message.messages
    layout, extent = Layout.decode(m.metadata), sum(length for _, length, _, _ in m.regions)
    layout.check(extent)
    address, _ = _BodyLocator(connection, m)(0, extent)
    return Array(lease, gpu_of(lease), address, extent, layout)
