"""What a server publishes: it copies tables and arrays into shared memory."""

import ctypes
import struct
from dataclasses import dataclass, field, replace

import pyarrow as pa

from . import cuda
from .errors import ProtocolError, ShareError
from .flatbuffer import Table as FlatTable
from .layout import Layout, item_size, of_dtype
from .messages import Message
from .shared import GPUMemory, HostMemory, align


@dataclass
class Part:
    """A message of a batch. Its body is at an offset of the table's memory."""

    metadata: bytes
    offset: int
    length: int

    def message(self, block: int) -> Message:
        return Message(self.metadata, [(0, self.length, block, self.offset)] if self.length else [])


@dataclass
class Published:
    """A table: the metadata of its schema, and its batches in one allocation. An array
    has no schema, and one batch whose metadata is its layout."""

    schema: bytes | None
    memory: HostMemory | GPUMemory
    used: int
    batches: list[list[Part]] = field(default_factory=list)
    rows: int = 0

    @property
    def kind(self) -> str:
        return "table" if self.schema is not None else "array"

    @property
    def device(self) -> str:
        return "cpu" if self.memory.gpu is None else f"cuda:{self.memory.gpu.ordinal}"


def _messages(buffer: pa.Buffer) -> list[tuple[bytes, memoryview]]:
    """Returns the messages of an Arrow IPC stream: metadata and body."""
    stream, found = memoryview(buffer), []
    at = 0
    while True:
        mark, length = struct.unpack_from("<iI", stream, at)
        if mark != -1:
            raise ShareError("pyarrow wrote an Arrow stream in a format before 0.15")
        if length == 0:
            return found
        metadata = bytes(stream[at + 8 : at + 8 + length])
        body = FlatTable.root(metadata).scalar(3, "q")
        at += 8 + length
        found.append((metadata, stream[at : at + body]))
        at += body


def host_table(table: pa.Table | pa.RecordBatch) -> Published:
    """Copies a table into shared memory."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    streams, rows = [], 0
    for batch in table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
        # One stream per batch, so that each contains its dictionaries.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(batch)
        streams.append(_messages(sink.getvalue()))
        rows += batch.num_rows
    size = sum(align(len(body)) for messages in streams for _, body in messages)
    memory = HostMemory(size)
    made = Published(streams[0][0][0], memory, size, rows=rows)
    at = 0
    for messages in streams:
        parts = []
        for metadata, body in messages[1:]:
            memory.write(at, body)
            parts.append(Part(metadata, at, len(body)))
            at += align(len(body))
        made.batches.append(parts)
    memory.finish()
    return made


def gpu_table(columns: dict) -> Published:
    """Copies arrays of a GPU (__cuda_array_interface__) into shared memory, as the
    columns of a table. Arrays of several axes become fixed-size lists."""
    arrays = {name: _Array(name, a) for name, a in columns.items()}
    if not arrays:
        raise ValueError("publish: got no columns")
    rows = {a.shape[0] for a in arrays.values()}
    gpus = {a.gpu for a in arrays.values() if a.size}
    if len(rows) > 1 or len(gpus) > 1:
        raise ValueError(f"publish: columns have {sorted(rows)} rows on {len(gpus)} GPUs, want one number of rows and one GPU")
    gpu = gpus.pop() if gpus else cuda.gpus()[0]
    offsets, at = {}, 0
    for name, a in arrays.items():
        offsets[name] = at
        at += align(a.size)
    memory = GPUMemory(gpu, at)
    try:
        for name, a in arrays.items():
            if a.size:
                memory.copy(offsets[name], a.address, a.size)
    except BaseException:
        memory.close()
        raise
    schema = pa.schema([pa.field(name, a.type, nullable=False) for name, a in arrays.items()])
    (rows,) = rows
    extents = {name: (offsets[name], a.size) for name, a in arrays.items()}
    metadata = _metadata(schema, rows, extents, at)
    made = Published(_messages(_stream(schema, []))[0][0], memory, at, rows=rows)
    made.batches.append([Part(metadata, 0, at)])
    return made


def host_array(array) -> Published:
    """Copies the extent of an array with __array_interface__ into shared memory: the
    bytes of its elements and those between them."""
    described = array.__array_interface__
    layout, low, size = _placed(array, described)
    memory = HostMemory(size)
    if size:
        memory.write(0, memoryview((ctypes.c_char * size).from_address(low)).cast("B"))
    memory.finish()
    return Published(None, memory, size, [[Part(layout.encode(), 0, size)]])


def gpu_array(array) -> Published:
    """Is host_array of an array on a GPU, with __cuda_array_interface__."""
    described = array.__cuda_array_interface__
    layout, low, size = _placed(array, described)
    gpu = cuda.owner(low) if size else cuda.gpus()[0]
    memory = GPUMemory(gpu, size)
    try:
        if size:
            gpu.synchronize()  # complete all writes to the array before the copy
            memory.copy(0, low, size)
    except BaseException:
        memory.close()
        raise
    return Published(None, memory, size, [[Part(layout.encode(), 0, size)]])


def _placed(array, described: dict) -> tuple[Layout, int, int]:
    """Returns the layout of an array in its extent, and the address and size of that."""
    if described.get("mask") is not None:
        raise ValueError("array: got a mask, want an array without nulls")
    dtype, data = getattr(array, "dtype", None), described["data"]
    if hasattr(dtype, "itemsize") and hasattr(dtype, "str"):
        kind = of_dtype(dtype)
    else:  # of a library other than NumPy and CuPy
        kind = described["typestr"]
        try:
            item_size(kind)
        except ProtocolError as e:
            raise TypeError(f"array: got type {kind}, want little-endian numbers, bools, times or bytes (V)") from e
    shape, strides = tuple(described["shape"]), described.get("strides")
    if strides is None:
        strides, step = [], item_size(kind)
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
    layout = Layout(kind, 0, shape, tuple(strides))
    low, high = layout.bounds()
    return replace(layout, offset=-low), (data[0] or 0) + low, high - low


class _Array:
    """An array, described by its __cuda_array_interface__."""

    def __init__(self, name: str, array):
        said = getattr(array, "__cuda_array_interface__", None)
        if said is None:
            raise TypeError(f"column {name!r}: got type {type(array).__name__}, want an array on a GPU")
        self.shape, (self.address, _) = tuple(said["shape"]), said["data"]
        form, strides = said["typestr"], said.get("strides")
        width = int(form[2:])
        kinds = {"i": pa.int8, "u": pa.uint8}
        names = {"i": "int", "u": "uint", "f": "float"}
        if form[0] == ">" or form[1] not in names or f"{form[1]}{width}" in ("f1", "f16"):
            raise TypeError(f"column {name!r}: got type {form}, want little-endian integers or floats")
        value = kinds[form[1]]() if width == 1 else getattr(pa, f"{names[form[1]]}{8 * width}")()
        if not self.shape:
            raise ValueError(f"column {name!r}: got no axis, want at least one")
        dense, steps = width, []
        for n in reversed(self.shape):
            steps.insert(0, dense)
            dense *= n
        self.size = dense
        if strides is not None and dense and any(n > 1 and s != d for n, s, d in zip(self.shape, strides, steps, strict=True)):
            raise ValueError(f"column {name!r}: want a contiguous array in C order")
        self.type = value
        for n in reversed(self.shape[1:]):
            self.type = pa.list_(pa.field("item", self.type, nullable=False), n)
        self.gpu = None
        if self.size:
            self.gpu = cuda.owner(self.address)
            self.gpu.synchronize()  # complete all writes to the array before the copy


def _stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _metadata(schema: pa.Schema, rows: int, extents: dict[str, tuple[int, int]], body: int) -> bytes:
    """Returns the metadata of a batch whose values are on a GPU. pyarrow writes that of
    a batch of one row; then lengths and offsets are replaced. All of them are stored,
    with a fixed size, since none of that batch is 0 except the null counts."""
    one = pa.RecordBatch.from_arrays([_one(f.type) for f in schema], schema=schema)
    written = bytearray(_messages(_stream(schema, [one]))[1][0])
    message = FlatTable.root(bytes(written))
    header = message.table(2)
    struct.pack_into("<q", written, message.where(3), body)
    struct.pack_into("<q", written, header.where(0), rows)
    nodes, count = header.vector(1, 16)
    buffers, _ = header.vector(2, 16)
    node = buffer = 0
    for f in schema:
        length, t = rows, f.type
        offset, size = extents[f.name]
        while True:
            struct.pack_into("<qq", written, nodes + 16 * node, length, 0)
            struct.pack_into("<qq", written, buffers + 16 * buffer, offset, 0)
            node, buffer = node + 1, buffer + 1
            if not pa.types.is_fixed_size_list(t):
                break
            length, t = length * t.list_size, t.value_type
        struct.pack_into("<qq", written, buffers + 16 * buffer, offset, size)
        buffer += 1
    if node != count:
        raise ShareError(f"pyarrow wrote {count} nodes, want {node}")
    return bytes(written)


def _one(t: pa.DataType) -> pa.Array:
    """Returns an array of one zero element."""
    if pa.types.is_fixed_size_list(t):
        values = pa.concat_arrays([_one(t.value_type)] * t.list_size) if t.list_size else _one(t.value_type)[:0]
        return pa.FixedSizeListArray.from_arrays(values, type=t) if t.list_size else pa.array([[]], t)
    return pa.array([0], pa.int8()).cast(t)
