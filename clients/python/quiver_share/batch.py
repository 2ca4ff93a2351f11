"""Batches, columns and buffers that a client reads in place."""

import ctypes
from dataclasses import replace

import pyarrow as pa
from pyarrow import types

from . import carrow
from .connection import Connection, Lease
from .cuda import GPU
from .errors import ProtocolError
from .flatbuffer import FieldIds, record_batch
from .messages import Message
from .messages import Batch as BatchMessage
from .nodes import Node, NodeBuilder, dictionary_types


class _LeasedMemory:
    """Memory under a lease, on the host (gpu is None) or on a GPU."""

    def __init__(self, lease: Lease, gpu: GPU | None):
        self._lease, self.gpu = lease, gpu

    @property
    def device(self) -> str:
        return "cpu" if self.gpu is None else f"cuda:{self.gpu.ordinal}"

    def _checked_lease(self) -> Lease:
        self._lease.check()
        return self._lease

    def _bytes(self, address: int, size: int) -> bytearray:
        """Copies memory to the host."""
        copied = bytearray(size)
        if size and self.gpu is not None:
            self.gpu.read(address, memoryview(copied))
        elif size:
            copied[:] = (ctypes.c_char * size).from_address(address)
        return copied

    def _array(self, address: int, size: int, typestr: str, shape: tuple[int, ...]) -> dict:
        if self.gpu is None:
            raise AttributeError("the memory is on the host: use to_pyarrow")
        return {"shape": shape, "typestr": typestr, "data": (address if size else 0, True), "strides": None, "version": 3}


class Buffer(_LeasedMemory):
    """Untyped bytes. Read-only."""

    def __init__(self, lease: Lease, gpu: GPU | None, address: int, size: int):
        super().__init__(lease, gpu)
        self.address, self.size = address, size

    def to_bytes(self) -> bytes:
        self._checked_lease()
        return bytes(self._bytes(self.address, self.size))

    def to_pyarrow(self) -> pa.Buffer:
        """Returns the memory in place on the host, or a copy of a GPU's."""
        lease = self._checked_lease()
        if self.gpu is not None:
            return pa.py_buffer(self._bytes(self.address, self.size))
        return pa.foreign_buffer(self.address, self.size, base=lease) if self.size else pa.py_buffer(b"")

    @property
    def __cuda_array_interface__(self) -> dict:
        self._checked_lease()
        return self._array(self.address, self.size, "|u1", (self.size,))


class Column(_LeasedMemory):
    """One column of a batch."""

    def __init__(self, lease: Lease, gpu: GPU | None, field: pa.Field, node: Node):
        super().__init__(lease, gpu)
        self.field, self._node = field, node
        self.type, self.null_count = node.type, node.null_count

    def __len__(self) -> int:
        return self._node.length

    def __repr__(self) -> str:
        return f"<Column {self.field.name!r}: {self.type}, {len(self)} on {self.device}>"

    def buffers(self) -> list[tuple[int, int]]:
        """Returns the addresses and sizes of the column's own buffers, validity first."""
        self._checked_lease()
        return list(self._node.buffers)

    def __arrow_c_schema__(self):
        return self.field.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema=None):
        lease = self._checked_lease()
        if self.gpu is not None:
            raise ValueError(f"column {self.field.name!r} is on {self.device}: use to_host")
        return self.field.__arrow_c_schema__(), carrow.array_capsule(self._node, lease)

    def __arrow_c_device_array__(self, requested_schema=None, **_):
        return self.field.__arrow_c_schema__(), _device_capsule(self, self._node)

    def to_pyarrow(self) -> pa.Array:
        """Returns the column in place on the host, or a copy of a GPU's."""
        return pa.array(self if self.gpu is None else self.to_host())

    def to_host(self) -> "Column":
        """Returns a copy on the host."""
        self._checked_lease()
        return Column(*_host(self, self._node, self.field))

    @property
    def __cuda_array_interface__(self) -> dict:
        """Exists for numbers, for times as integers, and for fixed-size lists of these,
        which become further axes. Booleans and columns with nulls have none."""
        self._checked_lease()
        node, shape = self._node, (len(self),)
        while True:
            if node.null_count:
                raise ValueError(f"column {self.field.name!r} has nulls, which a CUDA array cannot represent")
            if not types.is_fixed_size_list(node.type):
                break
            shape += (node.type.list_size,)
            node = node.children[0]
        form = _typestr(node.type)
        if form is None:
            raise TypeError(f"column {self.field.name!r}: a CUDA array cannot represent {node.type}")
        address, size = node.buffers[1]
        return self._array(address, size, form, shape)


def _typestr(t: pa.DataType) -> str | None:
    if types.is_integer(t):
        return f"<{'i' if types.is_signed_integer(t) else 'u'}{t.bit_width // 8}"
    if types.is_floating(t):
        return f"<f{t.bit_width // 8}"
    if types.is_temporal(t) and not types.is_interval(t):
        return f"<i{t.bit_width // 8}"
    return None


class Batch(_LeasedMemory):
    """A record batch. The batch, its columns and all objects that show their memory keep
    the lease. When all of them are gone, the server may reuse the memory."""

    def __init__(self, lease: Lease, gpu: GPU | None, schema: pa.Schema, rows: int, nodes: list[Node]):
        super().__init__(lease, gpu)
        self.schema, self.num_rows = schema, rows
        self._node = Node(pa.struct(list(schema)), rows, 0, [(0, 0)], nodes)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"<Batch of {self.num_rows} rows, {len(self.schema)} columns on {self.device}>"

    @property
    def columns(self) -> list[Column]:
        return [Column(self._lease, self.gpu, f, n) for f, n in zip(self.schema, self._node.children, strict=True)]

    def __getitem__(self, name: str | int) -> Column:
        i = name if isinstance(name, int) else self.schema.get_field_index(name)
        if not -len(self.schema) <= i < len(self.schema) or (i < 0 and not isinstance(name, int)):
            raise KeyError(name)
        return self.columns[i]

    def __arrow_c_schema__(self):
        return self.schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema=None):
        lease = self._checked_lease()
        if self.gpu is not None:
            raise ValueError(f"the batch is on {self.device}: use to_host")
        return self.schema.__arrow_c_schema__(), carrow.array_capsule(self._node, lease)

    def __arrow_c_device_array__(self, requested_schema=None, **_):
        return self.schema.__arrow_c_schema__(), _device_capsule(self, self._node)

    def to_pyarrow(self) -> pa.RecordBatch:
        """Returns the batch in place on the host, or a copy of a GPU's."""
        return pa.record_batch(self if self.gpu is None else self.to_host())

    def to_host(self) -> "Batch":
        """Returns a copy on the host."""
        self._checked_lease()
        lease, gpu, _, node = _host(self, self._node, None)
        return Batch(lease, gpu, self.schema, self.num_rows, node.children)


def _device_capsule(part: _LeasedMemory, node: Node) -> object:
    lease = part._checked_lease()
    if part.gpu is None:
        return carrow.device_capsule(node, lease, carrow.CPU, -1, carrow.host_upload)

    def upload(data: bytes, owner):
        kept = _DeviceCopy(part.gpu, data)
        return kept.address, (owner, kept)

    return carrow.device_capsule(node, lease, carrow.CUDA, part.gpu.ordinal, upload)


class _DeviceCopy:
    """A copy of host bytes in memory of a GPU."""

    def __init__(self, gpu: GPU, data: bytes):
        self.gpu, self.address = gpu, gpu.allocate(max(len(data), 1))
        gpu.write(self.address, data)

    def __del__(self):
        self.gpu.free(self.address)


class _CopyOwner:
    """Replaces the lease of a copy. Owns the copied bytes."""

    def __init__(self):
        self.kept: list = []

    def check(self) -> None:
        pass


def _host(part: _LeasedMemory, node: Node, field) -> tuple:
    copied = _CopyOwner()

    def copy(n: Node) -> Node:
        buffers = []
        for address, size in n.buffers:
            if size:
                raw = part._bytes(address, size)
                copied.kept.append(raw)
                address = ctypes.addressof((ctypes.c_char * size).from_buffer(raw))
            buffers.append((address, size))
        dictionary = None if n.dictionary is None else copy(n.dictionary)
        return replace(n, buffers=buffers, children=[copy(c) for c in n.children], dictionary=dictionary)

    return copied, None, field, copy(node)


class BatchReader:
    """Assembles the batches of a request, with its schema."""

    def __init__(self, connection: Connection, schema: pa.Schema, ids: list[FieldIds]):
        self.connection, self.schema, self.ids = connection, schema, ids
        self.types = [f.type for f in schema]
        self.dictionaries = dictionary_types(self.types, ids)

    def batch(self, message: BatchMessage) -> Batch:
        lease = lease_of(self.connection, message)
        if not message.messages:
            raise ProtocolError("BATCH: no messages")
        gpu, made, found = gpu_of(lease), None, {}
        for m in message.messages:
            if made is not None:
                raise ProtocolError("BATCH: a message after the record batch")
            parsed = record_batch(m.metadata)
            builder = NodeBuilder(parsed, _BodyLocator(self.connection, m), found)
            if parsed.dictionary is None:
                made = Batch(lease, gpu, self.schema, parsed.rows, builder.columns(self.types, self.ids))
                continue
            if parsed.delta or parsed.dictionary in found or parsed.dictionary not in self.dictionaries:
                raise ProtocolError(f"BATCH: dictionary {parsed.dictionary} is repeated, a delta, or of no field")
            values, ids = self.dictionaries[parsed.dictionary]
            (found[parsed.dictionary],) = builder.columns([values], [FieldIds(None, ids)])
        if made is None:
            raise ProtocolError("BATCH: no record batch")
        if any(c.length != made.num_rows for c in made._node.children):
            raise ProtocolError(f"BATCH: columns differ from the {made.num_rows} rows of the batch")
        return made


def lease_of(connection: Connection, message: BatchMessage) -> Lease:
    """Returns the lease of a BATCH, and releases it if a block cannot be opened."""
    numbers = {region[2] for m in message.messages for region in m.regions}
    try:
        return Lease(connection, message.lease, [connection.block(n) for n in sorted(numbers)])
    except BaseException:
        connection.ended_leases.put((message.lease, set()))
        raise


def gpu_of(lease: Lease) -> GPU | None:
    gpus = {b.gpu for b in lease.blocks}
    if len(gpus) > 1:
        raise ProtocolError("BATCH: blocks on several devices")
    return gpus.pop() if gpus else None


class _BodyLocator:
    """Maps offsets of a message's body to addresses."""

    def __init__(self, connection: Connection, message: Message):
        self.regions = []
        for place, length, number, offset in message.regions:
            block = connection.block(number)
            if offset + length > block.size:
                raise ProtocolError(f"BATCH: {length} bytes at {offset} exceed the {block.size} bytes of block {number}")
            self.regions.append((place, length, block.address + offset))

    def __call__(self, offset: int, size: int) -> tuple[int, int]:
        if size == 0:
            return 0, 0
        for place, length, address in self.regions:
            if place <= offset and offset + size <= place + length:
                return address + offset - place, size
        raise ProtocolError(f"BATCH: no region contains the buffer of {size} bytes at {offset} of the body")


def buffer(connection: Connection, message: BatchMessage) -> Buffer:
    lease = lease_of(connection, message)
    if len(message.messages) != 1 or message.messages[0].metadata or len(message.messages[0].regions) > 1:
        raise ProtocolError("BATCH of a buffer: want one message without metadata, in one region")
    size = sum(length for _, length, _, _ in message.messages[0].regions)
    address, _ = _BodyLocator(connection, message.messages[0])(0, size)
    return Buffer(lease, gpu_of(lease), address, size)
