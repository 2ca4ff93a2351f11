"""The server: tables of this process, for clients of Quiver and of this package."""

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
from .errors import FAILED, FAULT, MECHANISM, NO_NAME, OTHER_KIND, REFUSED, VERSION, ProtocolError, ServerGone, ShareError
from .fields import Reader
from .fields import name as name_field
from .frame import Frame, Framed
from .messages import MEMORY, MECHANISMS, BlockUse, Entry, HeldLease, Hello, Peer, Stats, Welcome
from .process import this
from .publish import Published, gpu_table, host_table
from .shared import GPUMemory, HostMemory, descriptor


@dataclass
class _Offered:
    """A published table and the blocks that its memory is known as: by mechanism,
    its own and, where somebody needed it, the copy on the host."""

    table: Published
    blocks: dict[int, int] = field(default_factory=dict)
    withdrawn: bool = False


class Server:
    """Offers tables on a Unix socket, mode 0600, to processes of the same user.

    Each client is served by a thread of its own. A table is copied when it is
    published, so its arrays may change or go afterwards.
    """

    def __init__(self, path: str):
        self.path, self.instance = path, secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._tables: dict[str, _Offered] = {}
        self._memory: dict[int, HostMemory | GPUMemory] = {}
        self._peers: set[_Client] = set()
        self._blocks = 0
        self._closed = False
        self._listener = self._listen(path)
        threading.Thread(target=self._accept, name="quiver-share serves", daemon=True).start()

    @staticmethod
    def _listen(path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            try:
                if not stat.S_ISSOCK(os.lstat(path).st_mode):
                    raise OSError(errno.EEXIST, "there is a file that is no socket", path)
                other.connect(path)
                raise OSError(errno.EADDRINUSE, "somebody serves there", path)
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
        """Publishes a pyarrow Table or RecordBatch, or a dict of arrays of a GPU."""
        name_field(name)
        made = host_table(table) if isinstance(table, pa.Table | pa.RecordBatch) else gpu_table(table)
        with self._lock:
            if name not in self._tables:
                self._tables[name] = _Offered(made)
                return
        made.memory.close()
        raise ValueError(f"{name!r} is published already")

    def withdraw(self, name: str) -> None:
        """Ends a name. Its memory is freed when no client holds a part of it."""
        with self._lock:
            offered = self._tables.pop(name)
            offered.withdrawn = True
            if not offered.blocks:
                offered.table.memory.close()
            blocks, peers = list(offered.blocks.values()), list(self._peers)
        for peer in peers:
            for block in blocks:
                peer.forget_if_unused(block)
        for block in blocks:
            self._free_if_unknown(block)

    def _block(self, offered: _Offered, mechanisms: tuple[int, ...], gpus: tuple[bytes, ...]) -> int:
        """The block in which a client of these abilities reads a table."""
        memory = offered.table.memory
        if memory.gpu is not None and memory.gpu.uuid not in gpus:
            mechanisms = tuple(m for m in mechanisms if m == MEMORY)
        with self._lock:
            for way in (memory.mechanism, MEMORY):
                if way not in mechanisms:
                    continue
                if way not in offered.blocks:
                    shared = memory if way == memory.mechanism else memory.to_host(offered.table.used)
                    self._blocks += 1
                    offered.blocks[way] = self._blocks
                    self._memory[self._blocks] = shared
                return offered.blocks[way]
        theirs = ", ".join(MECHANISMS[m] for m in mechanisms) or "none for this GPU"
        raise errors.answered(MECHANISM, f"shared by {MECHANISMS[memory.mechanism]} and memory; the client has {theirs}")

    def _free_if_unknown(self, block: int) -> None:
        with self._lock:
            kept = any(block in o.blocks.values() for o in self._tables.values())
            if kept or any(block in p.known for p in self._peers):
                return
            memory = self._memory.pop(block, None)
        if memory is not None:
            memory.close()

    def list(self) -> list[Entry]:
        with self._lock:
            return [
                Entry("table", name, o.table.rows, len(o.table.batches), o.table.used, o.table.device)
                for name, o in sorted(self._tables.items())
            ]

    def stat(self) -> Stats:
        with self._lock:
            peers = list(self._peers)
            uses = [
                BlockUse(
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
                time.sleep(0.05)  # too many files, or a client that left already
                continue
            # Who does not read what is sent to him is let go.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
            client = _Client(self, sock)
            with self._lock:
                self._peers.add(client)
            threading.Thread(target=client.run, name="quiver-share client", daemon=True).start()

    def _gone(self, client: "_Client") -> None:
        with self._lock:
            self._peers.discard(client)
            known = list(client.known)
        for block in known:
            self._free_if_unknown(block)

    def close(self) -> None:
        """Ends all connections. What clients hold stays theirs: they have it mapped."""
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.unlink(self.path)
        with self._lock:
            peers, names = list(self._peers), list(self._tables)
        for peer in peers:
            peer.framed.shutdown()
        for name in names:
            self.withdraw(name)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.close()


class _Client:
    """One connection, as the server sees it."""

    def __init__(self, server: Server, sock: socket.socket):
        self.server, self.framed = server, Framed(sock)
        self.pid, self.uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.hello: Hello | None = None
        self.connected = time.time_ns()
        self.known: set[int] = set()  # blocks that were announced and not forgotten
        self.asked: set[int] = set()  # those of them that it was told to forget
        self.leases: dict[int, tuple[int, HeldLease]] = {}  # block, and the rest
        self.lock = threading.Lock()
        self.next_lease = 1

    def run(self) -> None:
        try:
            self._greet()
            while (got := self.framed.receive()) is not None:
                self._take(got)
        except ProtocolError as e:
            self._error(0, FAULT, str(e))
        except (ShareError, OSError):
            pass  # the client is gone, and with it its leases
        finally:
            self.server._gone(self)
            self.framed.close()

    def _error(self, request: int, code: int, text: str) -> None:
        try:
            self.framed.send(frame.ERROR, request, messages.encode_error(code, text))
        except ServerGone:
            pass

    def _greet(self) -> None:
        if self.uid != os.getuid():
            self._error(0, REFUSED, f"this server is of user {os.getuid()}, the client of {self.uid}")
            raise ServerGone("a client of another user")
        self.framed.sock.settimeout(5)
        got = self.framed.receive()
        self.framed.sock.settimeout(None)
        if got is None or got.type != frame.HELLO:
            raise ProtocolError("a connection begins with HELLO")
        hello = Hello.decode(got.payload)
        if not hello.lowest <= messages.PROTOCOL <= hello.highest:
            self._error(0, VERSION, f"version {messages.PROTOCOL} is spoken here, {hello.lowest} to {hello.highest} there")
            raise ServerGone("a client of another version")
        here = this()
        if (hello.process.machine, hello.process.namespace) == (here.machine, here.namespace) and hello.process.pid != self.pid:
            self._error(0, REFUSED, f"the client says that it is process {hello.process.pid}, the kernel says {self.pid}")
            raise ServerGone("a client under another's number")
        self.hello = hello
        self.framed.send(frame.WELCOME, 0, Welcome(here, self.server.instance).encode())

    def _take(self, got: Frame) -> None:
        if got.fd is not None:
            os.close(got.fd)
            raise ProtocolError("clients send no descriptors")
        kind, request = got.type, got.request
        if (request == 0) != (kind in (frame.RELEASE, frame.FORGOTTEN)):
            raise ProtocolError(f"a frame of type {kind} of request {request}")
        if kind in (frame.LIST, frame.STAT, frame.PING) and got.payload:
            raise ProtocolError(f"a frame of type {kind} with a payload")
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
            there = name in (e.name for e in self.server.list())
            self._error(request, OTHER_KIND if there else NO_NAME, f"{name!r} is {'a table' if there else 'not published'}")
        elif kind == frame.RELEASE:
            self._release(messages.decode_numbers(got.payload, "RELEASE"))
        elif kind == frame.FORGOTTEN:
            for block in messages.decode_numbers(got.payload, "FORGOTTEN"):
                with self.lock:
                    if block not in self.asked:
                        raise ProtocolError(f"FORGOTTEN of block {block}, which it was not told to forget")
                    self.asked.discard(block)
                    self.known.discard(block)
                self.server._free_if_unknown(block)
        elif kind not in (frame.CANCEL, frame.CREDIT):  # for streams that have ended, as all have here
            raise ProtocolError(f"a frame of type {kind}")

    def _get(self, request: int, name: str) -> None:
        try:
            with self.server._lock:
                offered = self.server._tables.get(name)
            if offered is None:
                raise errors.answered(NO_NAME, f"{name!r} is not published")
            block = self.server._block(offered, self.hello.mechanisms, self.hello.gpus)
        except errors.Refused as e:
            self._error(request, e.code, str(e))
            return
        except ShareError as e:  # of CUDA
            self._error(request, FAILED, f"{name!r}: {e}")
            return
        self.framed.send(frame.SCHEMA, request, offered.table.schema)
        for sequence, parts in enumerate(offered.table.batches):
            size = sum(p.length for p in parts)
            # Once the block is known here it stays, whatever is withdrawn.
            with self.server._lock, self.lock:
                withdrawn, memory, new = offered.withdrawn, self.server._memory.get(block), block not in self.known
                if not withdrawn:
                    lease, self.next_lease = self.next_lease, self.next_lease + 1
                    self.leases[lease] = (block, HeldLease(lease, sequence, size, time.time_ns(), name))
                    self.known.add(block)
            if withdrawn:
                self._error(request, NO_NAME, f"{name!r} was withdrawn")
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
                raise ProtocolError(f"RELEASE of lease {lease}, which is not held")
            with self.server._lock:
                offered = any(held[0] in o.blocks.values() for o in self.server._tables.values())
            if not offered:
                self.forget_if_unused(held[0])

    def forget_if_unused(self, block: int) -> None:
        """Tells the client to close a withdrawn block when it holds nothing in it."""
        with self.lock:
            if block not in self.known or block in self.asked or any(b == block for b, _ in self.leases.values()):
                return
            self.asked.add(block)
        try:
            self.framed.send(frame.FORGET, 0, messages.encode_numbers([block]))
        except ServerGone:
            pass  # its thread sees that too

    def holds(self, block: int) -> int:
        with self.lock:
            return sum(b == block for b, _ in self.leases.values())

    def stat(self) -> Peer:
        with self.lock:
            return Peer(self.pid, self.uid, self.hello.process, self.connected, [held for _, held in self.leases.values()])


def _name(payload: bytes, what: str) -> str:
    r = Reader(payload, what)
    name = r.text()
    r.end()
    return name
