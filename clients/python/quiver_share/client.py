"""The client: what a server publishes, by name."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from . import batch, frame, messages
from .batch import Assembler, Batch, Buffer
from .connection import Connection
from .errors import OTHER_KIND, ProtocolError, answered
from .fields import name as name_field
from .flat import dictionary_ids
from .messages import Entry, Stats


@dataclass
class Table:
    """A table's batches, each under a lease of its own."""

    schema: pa.Schema
    batches: list[Batch]

    @property
    def num_rows(self) -> int:
        return sum(b.num_rows for b in self.batches)

    def to_pyarrow(self) -> pa.Table:
        """In place, or a copy of what is on a GPU."""
        return pa.Table.from_batches([b.to_pyarrow() for b in self.batches], schema=self.schema)


class Client:
    """A connection to a server of Quiver, or of this package, on this machine.

    May be used from several threads. Errors are those of quiver_share.errors.
    """

    def __init__(self, path: str, timeout: float = 10):
        self._connection = Connection(path, timeout)

    def list(self) -> list[Entry]:
        return messages.decode_listing(self._connection.ask(frame.LIST, frame.LISTING))

    def stat(self) -> Stats:
        """Who holds what at the server."""
        return messages.decode_stats(self._connection.ask(frame.STAT, frame.STATS))

    def table(self, name: str) -> Table:
        number, answers = self._connection.request(frame.GET, name_field(name))
        try:
            assembler = self._schema(answers)
            found = Table(assembler.schema, [])
            while (got := self._connection.answer(answers)).type != frame.END:
                found.batches.append(assembler.batch(_batch(got)))
            return found
        finally:
            self._connection.forget(number)

    def buffer(self, name: str) -> Buffer:
        number, answers = self._connection.request(frame.GET, name_field(name))
        try:
            got = self._connection.answer(answers)
            if got.type == frame.SCHEMA:
                raise answered(OTHER_KIND, f"{name!r} is a table")
            found = batch.buffer(self._connection, _batch(got))
            if (got := self._connection.answer(answers)).type != frame.END:
                raise ProtocolError(f"a frame of type {got.type} behind a buffer")
            return found
        finally:
            self._connection.forget(number)

    def stream(self, name: str, ahead: int = 4) -> Iterator[Batch]:
        """The batches that are written to a stream from the first next() on, until it
        ends. The server sends up to ahead of them before the first is taken."""
        return self._batches(name, ahead)

    def _batches(self, name: str, ahead: int) -> Iterator[Batch]:
        number, answers = self._connection.request(frame.SUBSCRIBE, struct.pack("<I", ahead) + name_field(name))
        ended = False
        try:
            assembler = self._schema(answers)
            while (got := self._connection.answer(answers)).type != frame.END:
                yield assembler.batch(_batch(got))
                self._connection.framed.send(frame.CREDIT, number, struct.pack("<I", 1))
            ended = True
        finally:
            self._connection.forget(number)
            if not ended and self._connection.failure is None:
                self._connection.framed.send(frame.CANCEL, number)

    def _schema(self, answers) -> Assembler:
        got = self._connection.answer(answers)
        if got.type == frame.BATCH:
            self._connection.give_back(got)
            raise answered(OTHER_KIND, "it is a buffer")
        if got.type != frame.SCHEMA:
            raise ProtocolError(f"a frame of type {got.type} where a schema is due")
        # pyarrow reads a schema from a stream: metadata behind its length, padded.
        padded = got.payload + bytes(-len(got.payload) % 8)
        schema = pa.ipc.read_schema(pa.py_buffer(struct.pack("<iI", -1, len(padded)) + padded))
        return Assembler(self._connection, schema, dictionary_ids(got.payload))

    def close(self) -> None:
        """Ends the connection. What is held stays mapped, but may not be looked at anew."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _batch(got: frame.Frame) -> messages.Batch:
    if got.type != frame.BATCH:
        raise ProtocolError(f"a frame of type {got.type} where a batch is due")
    return messages.Batch.decode(got.payload)
