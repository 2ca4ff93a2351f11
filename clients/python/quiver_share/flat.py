"""The parts of Arrow's flatbuffers that place a batch's buffers: Message.fbs and
Schema.fbs of the Arrow format, read in place.

Offsets are checked against the bytes as they are followed.
"""

import struct
from dataclasses import dataclass

from .errors import ProtocolError


class Table:
    """A table of a flatbuffer: fields by number."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at
        self.vtable = at - self._get("<i", at)
        self.fields = self._get("<H", self.vtable) // 2 - 2

    @classmethod
    def root(cls, data: bytes) -> "Table":
        if len(data) < 8:
            raise ProtocolError(f"Arrow metadata of {len(data)} bytes")
        return cls(data, struct.unpack_from("<I", data)[0])

    def _get(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ProtocolError(f"Arrow metadata points to {at} of {len(self.data)} bytes")
        return struct.unpack_from(form, self.data, at)[0]

    def where(self, number: int) -> int | None:
        """The position of a field, None where it is absent."""
        offset = self._get("<H", self.vtable + 4 + 2 * number) if number < self.fields else 0
        return self.at + offset if offset else None

    def scalar(self, number: int, form: str, default: int = 0) -> int:
        at = self.where(number)
        return default if at is None else self._get("<" + form, at)

    def table(self, number: int) -> "Table | None":
        at = self.where(number)
        return None if at is None else Table(self.data, at + self._get("<I", at))

    def vector(self, number: int, size: int) -> tuple[int, int]:
        """Where the entries of a vector begin, and how many there are."""
        at = self.where(number)
        if at is None:
            return 0, 0
        at += self._get("<I", at)
        count = self._get("<I", at)
        if at + 4 + count * size > len(self.data):
            raise ProtocolError(f"Arrow metadata has a vector of {count} entries, beyond its end")
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
    """A RecordBatch message, or the one within a DictionaryBatch."""

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
        raise ProtocolError(f"an Arrow message of type {kind} where a batch is due")
    dictionary, delta = None, False
    if kind == DICTIONARY:
        dictionary, delta = header.scalar(0, "q"), bool(header.scalar(2, "B"))
        header = header.table(1)
        if header is None:
            raise ProtocolError("a DictionaryBatch without its values")
    if header.where(3) is not None:
        raise ProtocolError("a compressed body, which cannot be read in place")
    variadic = [v for (v,) in header.structs(4, "<q")]
    return RecordBatch(
        header.scalar(0, "q"), header.structs(1, "<qq"), header.structs(2, "<qq"), variadic, body, dictionary, delta
    )


@dataclass
class FieldIds:
    """The dictionary that a field's values are indices into, if any, and those of
    its children. pyarrow's fields do not tell."""

    dictionary: int | None
    children: "list[FieldIds]"


def dictionary_ids(metadata: bytes) -> list[FieldIds]:
    """For each field of a Schema message."""

    left = len(metadata) // 8  # a field takes more; parts that are pointed to twice count twice

    def of(field: Table, depth: int) -> FieldIds:
        nonlocal left
        left -= 1
        if depth > 64 or left < 0:
            raise ProtocolError("a schema nested deeper than 64, or with more fields than its bytes hold")
        encoding = field.table(4)
        identity = None if encoding is None else encoding.scalar(0, "q")
        return FieldIds(identity, [of(child, depth + 1) for child in field.tables(5)])

    message = Table.root(metadata)
    header = message.table(2)
    if message.scalar(1, "B") != SCHEMA or header is None:
        raise ProtocolError("an Arrow message that is no schema where one is due")
    return [of(field, 0) for field in header.tables(1)]
