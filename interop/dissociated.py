"""Checks ipc/dissociated against a peer written from Arrow's document.

This file contains a server and a client of the Dissociated IPC Protocol, over the
sockets of docs/dissociated.md; pyarrow writes and reads the messages. Quiver relays:
its client reads from this server, its server sends to this client, and the result
must be equal. Bodies are packed or located in shared memory, in all combinations,
over two connections and over one. At the end both sides must have freed all locations.

The protocol is https://arrow.apache.org/docs/format/DissociatedIPC.html.

Usage: dissociated.py. It needs Go and Linux.
"""

import base64
import fcntl
import mmap
import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa

from cdevice import arrays

ROOT = Path(__file__).resolve().parent.parent
END, HEADER = 0, 1  # types of metadata messages
PACKED, LOCATED = 0, 1  # types of bodies
WANT, FREE = 0xFFFF_FFFF_FFFF_FF01, 77  # tags of this file's server


class Conn:
    """Messages over a socket."""

    def __init__(self, sock: socket.socket):
        self.socket, self.lock = sock, threading.Lock()

    def send(self, tag: int | None, body: bytes) -> None:
        with self.lock:
            self.socket.sendall(struct.pack("<QQQ", tag is not None, tag or 0, len(body)) + body)

    def receive(self) -> tuple[int | None, bytes] | None:
        """Returns a tag and a message, or None at the end."""
        if not (head := self.exactly(24, may_end=True)):
            return None
        tagged, tag, size = struct.unpack("<QQQ", head)
        assert tagged in (0, 1), head
        return tag if tagged else None, self.exactly(size)

    def exactly(self, size: int, may_end: bool = False) -> bytes:
        got = b""
        while len(got) < size:
            if not (piece := self.socket.recv(size - len(got))):
                assert may_end and not got, f"{len(got)} of {size} bytes"
                return b""
            got += piece
        return got


class Flat:
    """Reads a flatbuffer, as far as needed to find the buffers of a body."""

    def __init__(self, b: bytes):
        self.b = bytes(b)

    def u32(self, at: int) -> int:
        return struct.unpack_from("<I", self.b, at)[0]

    def field(self, table: int, number: int) -> int:
        """Returns the position of a table's field, or 0 if it is absent."""
        vtable = table - struct.unpack_from("<i", self.b, table)[0]
        size = struct.unpack_from("<H", self.b, vtable)[0]
        offset = struct.unpack_from("<H", self.b, vtable + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    def follow(self, at: int) -> int:
        return at + self.u32(at)

    def message(self) -> tuple[str, int, list[tuple[int, int]]]:
        """Returns the kind of an IPC message, the length of its body, and its buffers."""
        root = self.follow(0)
        kind = {1: "schema", 2: "dictionary", 3: "batch"}[self.b[self.field(root, 1)]]
        if kind == "schema":
            return kind, 0, []
        body = struct.unpack_from("<q", self.b, at)[0] if (at := self.field(root, 3)) else 0
        batch = self.follow(self.field(root, 2))
        if kind == "dictionary":
            batch = self.follow(self.field(batch, 1))
        vector = self.follow(self.field(batch, 2))
        return kind, body, [struct.unpack_from("<qq", self.b, vector + 4 + 16 * i) for i in range(self.u32(vector))]


class Memory:
    """Shared memory, allocated from front to back."""

    BASE = 512  # so that no location is 0

    def __init__(self, size: int):
        self.name = f"quiver-{secrets.token_hex(16)}"
        self.fd = os.memfd_create(self.name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.used, self.leases, self.lock = self.BASE, [], threading.Lock()

    def handle(self) -> bytes:
        return f"memfd:{os.getpid()}:{self.fd}:{self.name}".encode()

    def put(self, body, offset: int, length: int) -> int:
        """Copies bytes of a body and returns their address."""
        with self.lock:
            at = self.used
            self.used += (length + 63) // 64 * 64
            assert self.used <= len(self.map), "the memory is too small"
            self.map[at : at + length] = bytes(body[offset : offset + length])
            self.leases.append(at)
            return at

    def free(self, message: bytes) -> None:
        assert message and len(message) % 8 == 0, message
        with self.lock:
            for (address,) in struct.iter_unpack("<Q", message):
                if address:
                    self.leases.remove(address)


class Server:
    """Sends tables by name. Threads send the metadata and the bodies."""

    def __init__(self, folder: str, tables: dict[bytes, list[pa.RecordBatch]], located: bool, single: bool):
        self.tables, self.located, self.single = tables, located, single
        self.memory, self.failures, self.streams = Memory(1 << 22), [], []
        self.listeners = []
        for name in ("metadata",) if single else ("metadata", "data"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{folder}/{name}")
            listener.listen()
            self.listeners.append(listener)
            threading.Thread(target=self.accept, args=(listener, name), daemon=True).start()

    def uris(self) -> list[str]:
        query = f"want_data={WANT}"
        if self.located:
            query += f"&free_data={FREE}&remote_handle={quote(base64.b64encode(self.memory.handle()), safe='')}"
        return [f"unix://{listener.getsockname()}?{query}" for listener in self.listeners]

    def accept(self, listener: socket.socket, name: str) -> None:
        while True:
            conn = Conn(listener.accept()[0])
            thread = threading.Thread(target=self.serve, args=(conn, name), daemon=True)
            self.streams.append(thread)
            thread.start()

    def serve(self, conn: Conn, name: str) -> None:
        try:
            tag, identifier = conn.receive()
            assert tag == WANT, tag
            messages = list(encode(self.tables[identifier]))
            if self.single or name == "metadata":
                self.send_metadata(conn, messages)
            if self.single or name == "data":
                self.send_bodies(conn, messages)
            conn.socket.shutdown(socket.SHUT_WR)
            while got := conn.receive():
                assert self.located and got[0] == FREE, got
                self.memory.free(got[1])
        except Exception as failure:
            self.failures.append(failure)
        finally:
            conn.socket.close()

    def send_metadata(self, conn: Conn, messages: list[pa.ipc.Message]) -> None:
        for sequence, message in enumerate(messages):
            conn.send(None, struct.pack("<BI", HEADER, sequence) + bytes(message.metadata))
        conn.send(None, struct.pack("<BI", END, len(messages)))

    def send_bodies(self, conn: Conn, messages: list[pa.ipc.Message]) -> None:
        for sequence, message in enumerate(messages):
            kind, size, buffers = Flat(message.metadata).message()
            if kind == "schema":
                continue
            if not self.located:
                conn.send(PACKED << 56 | sequence, bytes(message.body)[:size])
                continue
            pairs = [(self.memory.put(message.body, *b) if b[1] else 0, b[1]) for b in buffers]
            body = struct.pack("<QQ", sum(length for _, length in pairs), len(pairs))
            conn.send(LOCATED << 56 | sequence, body + b"".join(struct.pack("<QQ", *pair) for pair in pairs))


def encode(batches: list[pa.RecordBatch]):
    """Returns the messages of a stream, written by pyarrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return pa.ipc.MessageReader.open_stream(sink.getvalue())


def connect(uri: str, identifier: bytes) -> tuple[Conn, dict]:
    parts = urlsplit(uri)
    assert parts.scheme == "unix" and not parts.netloc, uri
    query = {key: value for key, (value,) in parse_qs(parts.query, strict_parsing=True).items()}
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(parts.path)
    conn = Conn(sock)
    conn.send(int(query["want_data"]), identifier)
    return conn, query


def receive(uris: list[str], identifier: bytes) -> list[pa.RecordBatch]:
    """Reads a stream of Quiver and frees its locations."""
    first, query = connect(uris[0], identifier)
    conns = [first]
    if len(uris) > 1:
        second, query = connect(uris[1], identifier)
        conns.append(second)
    headers, bodies, ends = {}, {}, []

    def read(conn: Conn) -> None:
        while got := conn.receive():
            tag, message = got
            if tag is not None:
                assert (tag >> 32) & 0xFF_FFFF == 0, hex(tag)
                bodies[tag & 0xFFFF_FFFF] = (tag >> 56, message)
                continue
            kind, sequence = struct.unpack("<BI", message[:5])
            if kind == END:
                assert len(message) == 5, message
                ends.append(sequence)
            else:
                assert kind == HEADER and sequence not in headers
                headers[sequence] = message[5:]

    threads = [threading.Thread(target=read, args=(conn,), daemon=True) for conn in conns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "the stream did not end"
    assert ends == [len(headers)] and sorted(headers) == list(range(len(headers))), (ends, sorted(headers))
    memory = open_memory(base64.b64decode(query["remote_handle"], validate=True)) if "remote_handle" in query else None
    stream, freed = b"", []
    for sequence in range(len(headers)):
        kind, size, buffers = Flat(headers[sequence]).message()
        body = b""
        if kind != "schema":
            how, message = bodies.pop(sequence)
            assert how == (LOCATED if memory else PACKED), how
            body = message if how == PACKED else collect(message, memory, size, buffers, freed)
            assert len(body) == size, (len(body), size)
        header = headers[sequence] + bytes(-len(headers[sequence]) % 8)
        stream += struct.pack("<Ii", 0xFFFF_FFFF, len(header)) + header + body
    assert not bodies, bodies
    for addresses in (freed[::2], freed[1::2]):  # not in order, and several per message
        if addresses:
            conns[-1].send(int(query["free_data"]), struct.pack(f"<{len(addresses)}Q", *addresses))
    for conn in conns:
        conn.socket.close()
    return list(pa.ipc.open_stream(stream + struct.pack("<Ii", 0xFFFF_FFFF, 0)))


def open_memory(handle: bytes) -> mmap.mmap:
    scheme, pid, fd, name = handle.decode().split(":")
    assert scheme == "memfd", handle
    path = f"/proc/{pid}/fd/{fd}"
    assert os.readlink(path) == f"/memfd:{name} (deleted)", os.readlink(path)
    opened = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(opened, 0, prot=mmap.PROT_READ)
    finally:
        os.close(opened)


def collect(message: bytes, memory: mmap.mmap, size: int, buffers: list[tuple[int, int]], freed: list[int]) -> bytes:
    """Returns the packed body of located buffers."""
    words = [word for (word,) in struct.iter_unpack("<Q", message)]
    total, count, pairs = words[0], words[1], list(zip(words[2::2], words[3::2], strict=True))
    assert count == len(pairs) == len(buffers) and total == sum(length for _, length in pairs), message
    body = bytearray(size)
    for (address, length), (offset, expected) in zip(pairs, buffers, strict=True):
        assert length == expected, (length, expected)
        body[offset : offset + length] = memory[address : address + length]
        freed.append(address)
    return bytes(body)


def tables() -> dict[bytes, list[pa.RecordBatch]]:
    columns = [a for a in arrays() if len(a) == 10]
    every = pa.record_batch(columns, schema=pa.schema([pa.field(f"c{i}", a.type) for i, a in enumerate(columns)], metadata={"made": "by hand"}))
    words = [pa.record_batch({"w": pa.array(w).dictionary_encode(), "n": pa.array(range(len(w)))}) for w in (["a", "b", "a"], ["c", None, "a"], ["c", "c"])]
    long = pa.record_batch({"x": pa.array(range(20_000)), "t": pa.array([f"row {i}" for i in range(20_000)])})
    return {
        b"every type": [every, every[:0], every[3:8], every],
        b"other dictionaries": words,
        b"long": [long, long[100:12_345], long],
        b"rows without columns' bytes": [pa.record_batch({"n": pa.nulls(3)})],
    }


def check(command: list[str], given: dict[bytes, list[pa.RecordBatch]], located: bool, relayed: str, single: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        server = Server(folder, given, located, single)
        uris = server.uris()
        relay = subprocess.Popen([*command, uris[0], "" if single else uris[1], other, relayed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            theirs = [relay.stdout.readline().strip() for _ in uris]
            for name, batches in given.items():
                for want, got in zip(batches, receive(theirs, name), strict=True):
                    got.validate(full=True)
                    assert want.equals(got, check_metadata=True), f"{name}: want {want}, got {got}"
            relay.stdin.close()
            assert relay.wait(10) == 0, "the relay failed"
        finally:
            relay.kill()
        for thread in server.streams:
            thread.join(10)
        assert not server.failures, server.failures
        assert not server.memory.leases, f"not freed: {server.memory.leases}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/relay"
        subprocess.run([os.environ.get("GO", "go"), "build", "-o", binary, "./interop/dissociated"], cwd=ROOT, check=True)
        given = tables()
        count = 0
        for located in (False, True):
            for relayed in ("packed", "located"):
                for single in (False, True):
                    check([binary], given, located, relayed, single)
                    count += len(given)
    print(f"Dissociated IPC: {count} streams from a peer and back to it, packed and located: all equal")


if __name__ == "__main__":
    sys.exit(main())
