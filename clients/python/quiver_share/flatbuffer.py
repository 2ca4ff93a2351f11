"""A reader of Arrow's flatbuffers (Message.fbs and Schema.fbs), as far as needed to
locate the buffers of a batch. It checks every offset.
"""

import struct
from dataclasses import dataclass

from .errors import ProtocolError


class Table:
    """A table of a flatbuffer, with access to fields by number."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at
        self.vtable = at - self._get("<i", at)
        self.fields = self._get("<H", self.vtable) // 2 - 2

    @classmethod
    def root(cls, data: bytes) -> "Table":
        if len(data) < 8:
            raise ProtocolError(f"Arrow metadata: got {len(data)} bytes, want at least 8")
        return cls(data, struct.unpack_from("<I", data)[0])

    def _get(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ProtocolError(f"Arrow metadata: offset {at} exceeds {len(self.data)} bytes")
        return struct.unpack_from(form, self.data, at)[0]

    def where(self, number: int) -> int | None:
        """Returns the position of a field, or None if it is absent."""
        offset = self._get("<H", self.vtable + 4 + 2 * number) if number < self.fields else 0
        return self.at + offset if offset else None

    def scalar(self, number: int, form: str, default: int = 0) -> int:
        at = self.where(number)
        return default if at is None else self._get("<" + form, at)

    def table(self, number: int) -> "Table | None":
        at = self.where(number)
        return None if at is None else Table(self.data, at + self._get("<I", at))

    def vector(self, number: int, size: int) -> tuple[int, int]:
        """Returns the position of a vector's entries, and their number."""
        at = self.where(number)
        if at is None:
            return 0, 0
        at += self._get("<I", at)
        count = self._get("<I", at)
        if at + 4 + count * size > len(self.data):
            raise ProtocolError(f"Arrow metadata: a vector of {count} entries exceeds its end")
        return at + 4, count

    def tables(self, number: int) -> "list[Table]":
        at, count = self.vector(number, 4)
        return [Table(self.data, at + 4 * i + self._get("<I", at + 4 * i)) for i in range(count)]

    def structs(self, number: int, form: str) -> list[tuple[int, ...]]:
        at, count = self.vector(number, struct.calcsize(form))
        return [struct.unpack_from(form, self.data, at + i * struct.calcsize(form)) for i in range(count)]


SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3  # MessageHeader


@dataclass
class RecordBatch:
    """A RecordBatch message, or the one inside a DictionaryBatch."""

    rows: int
    nodes: list[tuple[int, int]]  # length, null count
    buffers: list[tuple[int, int]]  # offset in the body, length
    variadic: list[int]
    body: int
    dictionary: int | None = None  # its id
    delta: bool = False


def record_batch(metadata: bytes) -> RecordBatch:
    message = Table.root(metadata)
    kind, body = message.scalar(1, "B"), message.scalar(3, "q")
    header = message.table(2)
    if kind not in (DICTIONARY, RECORD_BATCH) or header is None:
        raise ProtocolError(f"Arrow message: got type {kind}, want a batch")
    dictionary, delta = None, False
    if kind == DICTIONARY:
        dictionary, delta = header.scalar(0, "q"), bool(header.scalar(2, "B"))
        header = header.table(1)
        if header is None:
            raise ProtocolError("DictionaryBatch: no values")
    if header.where(3) is not None:
        raise ProtocolError("a compressed body cannot be read in place")
    variadic = [v for (v,) in header.structs(4, "<q")]
    return RecordBatch(
        header.scalar(0, "q"), header.structs(1, "<qq"), header.structs(2, "<qq"), variadic, body, dictionary, delta
    )


@dataclass
class FieldIds:
    """The id of a field's dictionary, if any, and the ids of its children. pyarrow's
    fields do not contain them."""

    dictionary: int | None
    children: "list[FieldIds]"


def dictionary_ids(metadata: bytes) -> list[FieldIds]:
    """Returns the dictionary ids of each field of a Schema message."""

    left = len(metadata) // 8  # an upper bound of the number of fields

    def of(field: Table, depth: int) -> FieldIds:
        nonlocal left
        left -= 1
        if depth > 64 or left < 0:
            raise ProtocolError("schema: deeper than 64 levels, or more fields than its bytes can hold")
        encoding = field.table(4)
        identity = None if encoding is None else encoding.scalar(0, "q")
        return FieldIds(identity, [of(child, depth + 1) for child in field.tables(5)])

    message = Table.root(metadata)
    header = message.table(2)
    if message.scalar(1, "B") != SCHEMA or header is None:
        raise ProtocolError("Arrow message: want a schema")
    return [of(field, 0) for field in header.tables(1)]
