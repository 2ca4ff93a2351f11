"""The client: reads what a server publishes, by name."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from . import array, batch, frame, messages
from .array import Array
from .batch import Batch, BatchReader, Buffer
from .connection import Connection
from .errors import WRONG_KIND, ProtocolError, peer_error
from .fields import name as name_field
from .flatbuffer import dictionary_ids
from .messages import Entry, Stats


@dataclass
class Table:
    """The batches of a table. Each has a lease of its own."""

    schema: pa.Schema
    batches: list[Batch]

    @property
    def num_rows(self) -> int:
        return sum(b.num_rows for b in self.batches)

    def to_pyarrow(self) -> pa.Table:
        """Returns the table in place on the host, or a copy of a GPU's."""
        return pa.Table.from_batches([b.to_pyarrow() for b in self.batches], schema=self.schema)


class Client:
    """A connection to a server on this machine, of Quiver or of this package.

    Several threads may use it. It raises the errors of quiver_share.errors.
    """

    def __init__(self, path: str, timeout: float = 10):
        self._connection = Connection(path, timeout)

    def list(self) -> list[Entry]:
        return messages.decode_listing(self._connection.round_trip(frame.LIST, frame.LISTING))

    def stat(self) -> Stats:
        """Returns the server's clients with their leases, and its shared blocks."""
        return messages.decode_stats(self._connection.round_trip(frame.STAT, frame.STATS))

    def table(self, name: str) -> Table:
        number, responses = self._connection.request(frame.GET, name_field(name))
        try:
            reader = self._schema(responses)
            found = Table(reader.schema, [])
            while (got := self._connection.next_response(responses)).type != frame.END:
                found.batches.append(reader.batch(_batch(got)))
            return found
        finally:
            self._connection.end_request(number)

    def buffer(self, name: str) -> Buffer:
        return self._single(name, "buffer")

    def array(self, name: str) -> Array:
        """Returns an N-dimensional array in place, with its dtype, shape and strides."""
        return self._single(name, "array")

    def _single(self, name: str, kind: str) -> Buffer | Array:
        number, responses = self._connection.request(frame.GET, name_field(name))
        try:
            got = self._connection.next_response(responses)
            if got.type == frame.SCHEMA:
                raise peer_error(WRONG_KIND, f"{name!r} is a table")
            message = _batch(got)
            is_array = any(m.metadata for m in message.messages)
            if is_array != (kind == "array"):
                self._connection.release_unread(got)
                raise peer_error(WRONG_KIND, f"{name!r} is {'an array' if is_array else 'a buffer'}")
            found = (array.array if is_array else batch.buffer)(self._connection, message)
            if (got := self._connection.next_response(responses)).type != frame.END:
                raise ProtocolError(f"got a frame of type {got.type} after a {kind}, want END")
            return found
        finally:
            self._connection.end_request(number)

    def stream(self, name: str, window: int = 4) -> Iterator[Batch]:
        """Yields the batches that are written to a stream from the first next() until
        the stream ends. The server sends up to window batches before they are read."""
        return self._batches(name, window)

    def _batches(self, name: str, window: int) -> Iterator[Batch]:
        number, responses = self._connection.request(frame.SUBSCRIBE, struct.pack("<I", window) + name_field(name))
        ended = False
        try:
            reader = self._schema(responses)
            while (got := self._connection.next_response(responses)).type != frame.END:
                yield reader.batch(_batch(got))
                self._connection.framed.send(frame.CREDIT, number, struct.pack("<I", 1))
            ended = True
        finally:
            self._connection.end_request(number)
            if not ended and self._connection.failure is None:
                self._connection.framed.send(frame.CANCEL, number)

    def _schema(self, responses) -> BatchReader:
        got = self._connection.next_response(responses)
        if got.type == frame.BATCH:
            self._connection.release_unread(got)
            raise peer_error(WRONG_KIND, "the name is a buffer or an array")
        if got.type != frame.SCHEMA:
            raise ProtocolError(f"got a frame of type {got.type}, want SCHEMA")
        # pyarrow reads a schema from an encapsulated message: length, metadata, padding.
        padded = got.payload + bytes(-len(got.payload) % 8)
        schema = pa.ipc.read_schema(pa.py_buffer(struct.pack("<iI", -1, len(padded)) + padded))
        return BatchReader(self._connection, schema, dictionary_ids(got.payload))

    def close(self) -> None:
        """Closes the connection. Existing arrays stay mapped; batches can no longer be read."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _batch(got: frame.Frame) -> messages.Batch:
    if got.type != frame.BATCH:
        raise ProtocolError(f"got a frame of type {got.type}, want BATCH")
    return messages.Batch.decode(got.payload)
