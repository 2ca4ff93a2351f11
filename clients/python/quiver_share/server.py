"""The server: shares tables and arrays with clients of Quiver and of this package."""

import errno
import os
import secrets
import socket
import stat
import struct
import threading
import time
from dataclasses import dataclass, field

import pyarrow as pa

from . import errors, frame, messages
from .errors import FAILED, FAULT, MECHANISM, NOT_FOUND, WRONG_KIND, REFUSED, VERSION, ProtocolError, ServerGone, ShareError
from .fields import Reader
from .fields import name as name_field
from .frame import Frame, FramedSocket
from .messages import MEMORY, MECHANISMS, BlockStat, Entry, LeaseStat, Hello, ClientStat, Stats, Welcome
from .process import current_process
from .publish import Published, gpu_array, gpu_table, host_array, host_table
from .shared import GPUMemory, HostMemory, descriptor


def _published(what) -> Published:
    if isinstance(what, pa.Table | pa.RecordBatch):
        return host_table(what)
    if isinstance(what, dict):
        return gpu_table(what)
    if hasattr(what, "__cuda_array_interface__"):
        return gpu_array(what)
    if hasattr(what, "__array_interface__"):
        return host_array(what)
    raise TypeError(f"publish: got {type(what).__name__}, want a table or an array")


@dataclass
class _Publication:
    """A published table or array and its blocks, by mechanism: that of its memory and, if a client
    needed one, that of a copy on the host."""

    table: Published
    blocks: dict[int, int] = field(default_factory=dict)
    withdrawn: bool = False


class Server:
    """Serves tables on a Unix socket of mode 0600 to processes of the same user.

    A thread per client handles requests. publish copies a table, so the caller may
    change or drop its arrays afterwards.
    """

    def __init__(self, path: str):
        self.path, self.instance = path, secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._tables: dict[str, _Publication] = {}
        self._memory: dict[int, HostMemory | GPUMemory] = {}
        self._clients: set[_Client] = set()
        self._blocks = 0
        self._closed = False
        self._listener = self._listen(path)
        threading.Thread(target=self._accept, name="quiver-share accept", daemon=True).start()

    @staticmethod
    def _listen(path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            try:
                if not stat.S_ISSOCK(os.lstat(path).st_mode):
                    raise OSError(errno.EEXIST, "the file is not a socket", path)
                other.connect(path)
                raise OSError(errno.EADDRINUSE, "another process serves there", path)
            except ConnectionRefusedError:  # a server that died left its file
                os.unlink(path)
            except FileNotFoundError:
                pass
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen()
        return listener

    # ---- What is published

    def publish(self, name: str, table) -> None:
        """Publishes a table or an array. A table is a pyarrow Table or RecordBatch, or a
        dict of arrays on a GPU. An array has __array_interface__ on the host, as NumPy's
        do, or __cuda_array_interface__ on a GPU; clients get its dtype, shape and strides."""
        name_field(name)
        made = _published(table)
        with self._lock:
            if name not in self._tables:
                self._tables[name] = _Publication(made)
                return
        made.memory.close()
        raise ValueError(f"{name!r} is published already")

    def withdraw(self, name: str) -> None:
        """Withdraws a name. Its memory is freed when no client has it open."""
        with self._lock:
            publication = self._tables.pop(name)
            publication.withdrawn = True
            if not publication.blocks:
                publication.table.memory.close()
            blocks, peers = list(publication.blocks.values()), list(self._clients)
        for peer in peers:
            for block in blocks:
                peer.forget_if_unused(block)
        for block in blocks:
            self._free_if_unknown(block)

    def _block(self, publication: _Publication, mechanisms: tuple[int, ...], gpus: tuple[bytes, ...]) -> int:
        """Returns the block of a table for a client with these mechanisms and GPUs."""
        memory = publication.table.memory
        if memory.gpu is not None and memory.gpu.uuid not in gpus:
            mechanisms = tuple(m for m in mechanisms if m == MEMORY)
        with self._lock:
            for mechanism in (memory.mechanism, MEMORY):
                if mechanism not in mechanisms:
                    continue
                if mechanism not in publication.blocks:
                    shared = memory if mechanism == memory.mechanism else memory.to_host(publication.table.used)
                    self._blocks += 1
                    publication.blocks[mechanism] = self._blocks
                    self._memory[self._blocks] = shared
                return publication.blocks[mechanism]
        theirs = ", ".join(MECHANISMS[m] for m in mechanisms) or "none for this GPU"
        raise errors.peer_error(MECHANISM, f"the memory needs mechanism {MECHANISMS[memory.mechanism]} or memory; the client has {theirs}")

    def _free_if_unknown(self, block: int) -> None:
        with self._lock:
            kept = any(block in o.blocks.values() for o in self._tables.values())
            if kept or any(block in p.known for p in self._clients):
                return
            memory = self._memory.pop(block, None)
        if memory is not None:
            memory.close()

    def list(self) -> list[Entry]:
        with self._lock:
            return [
                Entry(o.table.kind, name, o.table.rows, len(o.table.batches) if o.table.schema is not None else 0, o.table.used, o.table.device)
                for name, o in sorted(self._tables.items())
            ]

    def stat(self) -> Stats:
        with self._lock:
            peers = list(self._clients)
            uses = [
                BlockStat(
                    number,
                    m.size,
                    MECHANISMS[m.mechanism],
                    sum(p.holds(number) for p in peers),
                    sum(number in p.known for p in peers),
                    "cpu" if m.gpu is None else f"cuda:{m.gpu.ordinal}",
                )
                for number, m in self._memory.items()
            ]
        return Stats([p.stat() for p in peers if p.hello is not None], uses)

    # ---- Clients

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                time.sleep(0.05)  # too many open files, or the client has left
                continue
            # Drop clients that do not read.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
            client = _Client(self, sock)
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=client.run, name="quiver-share client", daemon=True).start()

    def _remove_client(self, client: "_Client") -> None:
        with self._lock:
            self._clients.discard(client)
            known = list(client.known)
        for block in known:
            self._free_if_unknown(block)

    def close(self) -> None:
        """Closes all connections. Clients keep their mapped memory."""
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.unlink(self.path)
        with self._lock:
            peers, names = list(self._clients), list(self._tables)
        for peer in peers:
            peer.framed.shutdown()
        for name in names:
            self.withdraw(name)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.close()


class _Client:
    """The server's side of a connection."""

    def __init__(self, server: Server, sock: socket.socket):
        self.server, self.framed = server, FramedSocket(sock)
        self.pid, self.uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.hello: Hello | None = None
        self.connected = time.time_ns()
        self.known: set[int] = set()  # blocks that were announced and not forgotten
        self.forget_sent: set[int] = set()  # announced blocks for which FORGET was sent
        self.leases: dict[int, tuple[int, LeaseStat]] = {}  # block, and its description
        self.lock = threading.Lock()
        self.next_lease = 1

    def run(self) -> None:
        try:
            self._handshake()
            while (got := self.framed.receive()) is not None:
                self._handle(got)
        except ProtocolError as e:
            self._error(0, FAULT, str(e))
        except (ShareError, OSError):
            pass  # the client is gone, and with it its leases
        finally:
            self.server._remove_client(self)
            self.framed.close()

    def _error(self, request: int, code: int, text: str) -> None:
        try:
            self.framed.send(frame.ERROR, request, messages.encode_error(code, text))
        except ServerGone:
            pass

    def _handshake(self) -> None:
        if self.uid != os.getuid():
            self._error(0, REFUSED, f"user of the client: got {self.uid}, want {os.getuid()}")
            raise ServerGone("the client is of another user")
        self.framed.sock.settimeout(5)
        got = self.framed.receive()
        self.framed.sock.settimeout(None)
        if got is None or got.type != frame.HELLO:
            raise ProtocolError("want HELLO as the first frame")
        hello = Hello.decode(got.payload)
        if not hello.lowest <= messages.PROTOCOL <= hello.highest:
            self._error(0, VERSION, f"protocol version: the client has {hello.lowest} to {hello.highest}, the server {messages.PROTOCOL}")
            raise ServerGone("no common version")
        here = current_process()
        if (hello.process.machine, hello.process.namespace) == (here.machine, here.namespace) and hello.process.pid != self.pid:
            self._error(0, REFUSED, f"process id: the client sent {hello.process.pid}, the kernel reports {self.pid}")
            raise ServerGone("the client sent a wrong process id")
        self.hello = hello
        self.framed.send(frame.WELCOME, 0, Welcome(here, self.server.instance).encode())

    def _handle(self, got: Frame) -> None:
        if got.fd is not None:
            os.close(got.fd)
            raise ProtocolError("got a descriptor from a client, want none")
        kind, request = got.type, got.request
        if (request == 0) != (kind in (frame.RELEASE, frame.FORGOTTEN)):
            raise ProtocolError(f"frame of type {kind}: invalid request {request}")
        if kind in (frame.LIST, frame.STAT, frame.PING) and got.payload:
            raise ProtocolError(f"frame of type {kind}: want an empty payload")
        if kind == frame.LIST:
            self.framed.send(frame.LISTING, request, messages.encode_listing(self.server.list()))
        elif kind == frame.STAT:
            self.framed.send(frame.STATS, request, messages.encode_stats(self.server.stat()))
        elif kind == frame.PING:
            self.framed.send(frame.PONG, request)
        elif kind == frame.GET:
            self._get(request, _name(got.payload, "GET"))
        elif kind == frame.SUBSCRIBE:
            name = _name(got.payload[4:], "SUBSCRIBE")
            kind = next((e.kind for e in self.server.list() if e.name == name), None)
            self._error(request, WRONG_KIND if kind else NOT_FOUND, f"{name!r} is of kind {kind}" if kind else f"{name!r} is not published")
        elif kind == frame.RELEASE:
            self._release(messages.decode_numbers(got.payload, "RELEASE"))
        elif kind == frame.FORGOTTEN:
            for block in messages.decode_numbers(got.payload, "FORGOTTEN"):
                with self.lock:
                    if block not in self.forget_sent:
                        raise ProtocolError(f"FORGOTTEN of block {block}, for which FORGET was not sent")
                    self.forget_sent.discard(block)
                    self.known.discard(block)
                self.server._free_if_unknown(block)
        elif kind not in (frame.CANCEL, frame.CREDIT):  # this server has no streams, so they have ended
            raise ProtocolError(f"clients must not send frames of type {kind}")

    def _get(self, request: int, name: str) -> None:
        try:
            with self.server._lock:
                publication = self.server._tables.get(name)
            if publication is None:
                raise errors.peer_error(NOT_FOUND, f"{name!r} is not published")
            block = self.server._block(publication, self.hello.mechanisms, self.hello.gpus)
        except errors.Refused as e:
            self._error(request, e.code, str(e))
            return
        except ShareError as e:  # of CUDA
            self._error(request, FAILED, f"{name!r}: {e}")
            return
        if publication.table.schema is not None:
            self.framed.send(frame.SCHEMA, request, publication.table.schema)
        for sequence, parts in enumerate(publication.table.batches):
            size = sum(p.length for p in parts)
            # A block that the client knows stays, even if its table is withdrawn.
            with self.server._lock, self.lock:
                withdrawn, memory, new = publication.withdrawn, self.server._memory.get(block), block not in self.known
                if not withdrawn:
                    lease, self.next_lease = self.next_lease, self.next_lease + 1
                    self.leases[lease] = (block, LeaseStat(lease, sequence, size, time.time_ns(), name))
                    self.known.add(block)
            if withdrawn:
                self._error(request, NOT_FOUND, f"{name!r} was withdrawn")
                return
            if new:
                payload = struct.pack("<Q", block) + descriptor(memory, block).encode()
                self.framed.send(frame.BLOCK, 0, payload, memory.fd)
            batch = messages.Batch(lease, sequence, [p.message(block) for p in parts])
            self.framed.send(frame.BATCH, request, batch.encode())
        self.framed.send(frame.END, request)

    def _release(self, leases: list[int]) -> None:
        for lease in leases:
            with self.lock:
                held = self.leases.pop(lease, None)
            if held is None:
                raise ProtocolError(f"RELEASE of lease {lease}, which the client does not hold")
            with self.server._lock:
                publication = any(held[0] in o.blocks.values() for o in self.server._tables.values())
            if not publication:
                self.forget_if_unused(held[0])

    def forget_if_unused(self, block: int) -> None:
        """Sends FORGET for a withdrawn block in which the client has no lease."""
        with self.lock:
            if block not in self.known or block in self.forget_sent or any(b == block for b, _ in self.leases.values()):
                return
            self.forget_sent.add(block)
        try:
            self.framed.send(frame.FORGET, 0, messages.encode_numbers([block]))
        except ServerGone:
            pass  # the client's thread notices, too

    def holds(self, block: int) -> int:
        with self.lock:
            return sum(b == block for b, _ in self.leases.values())

    def stat(self) -> ClientStat:
        with self.lock:
            return ClientStat(self.pid, self.uid, self.hello.process, self.connected, [held for _, held in self.leases.values()])


def _name(payload: bytes, what: str) -> str:
    r = Reader(payload, what)
    name = r.text()
    r.finish()
    return name
