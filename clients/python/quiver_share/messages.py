"""The messages of the sharing protocol, version 1: docs/sharing.md of Quiver."""

import struct
from dataclasses import dataclass, field

from .errors import ProtocolError
from .fields import Reader, text
from .process import Process

MAGIC = b"QVSHARE1"
PROTOCOL = 1

LOCAL, CUDA_IPC, CUDA_FD, MEMORY, CUDA_POOL = 1, 2, 3, 4, 5
MECHANISMS = {LOCAL: "local", CUDA_IPC: "cuda-ipc", CUDA_FD: "cuda-fd", MEMORY: "memory", CUDA_POOL: "cuda-pool"}
KINDS = {1: "table", 2: "stream", 3: "buffer", 4: "array"}


@dataclass
class Hello:
    process: Process
    mechanisms: tuple[int, ...]
    gpus: tuple[bytes, ...]
    events: bool = False
    lowest: int = PROTOCOL
    highest: int = PROTOCOL

    def encode(self) -> bytes:
        head = MAGIC + struct.pack("<HH", self.lowest, self.highest) + self.process.encode()
        ways = struct.pack("<BB", self.events, len(self.mechanisms)) + bytes(self.mechanisms)
        return head + ways + struct.pack("<B", len(self.gpus)) + b"".join(self.gpus)

    @classmethod
    def decode(cls, payload: bytes) -> "Hello":
        r = Reader(payload, "HELLO")
        if r.bytes(8) != MAGIC:
            raise ProtocolError("HELLO: wrong magic bytes")
        lowest, highest = r("HH")
        process = Process.decode(r)
        flags, n = r("BB")
        if flags > 1:
            raise ProtocolError(f"HELLO: flags: got {flags}, want 0 or 1")
        mechanisms = tuple(m for m in r.bytes(n) if m in MECHANISMS)
        gpus = tuple(r.bytes(16) for _ in range(r("B")))
        r.finish()
        return cls(process, mechanisms, gpus, bool(flags), lowest, highest)


@dataclass
class Welcome:
    process: Process
    instance: bytes
    keep_alive_ms: int = 0
    version: int = PROTOCOL

    def encode(self) -> bytes:
        head = MAGIC + struct.pack("<HH", self.version, 0) + self.process.encode()
        return head + struct.pack("<16sII", self.instance, self.keep_alive_ms, 0)

    @classmethod
    def decode(cls, payload: bytes) -> "Welcome":
        r = Reader(payload, "WELCOME")
        if r.bytes(8) != MAGIC:
            raise ProtocolError("WELCOME: wrong magic bytes")
        version = r("H")
        r.reserved("H")
        process = Process.decode(r)
        instance, keep_alive_ms = r("16sI")
        r.reserved("I")
        r.finish()
        if version != PROTOCOL:
            raise ProtocolError(f"WELCOME: version: got {version}, want {PROTOCOL}")
        return cls(process, instance, keep_alive_ms, version)


@dataclass
class Entry:
    """A published name: its kind, its size and its device."""

    kind: str
    name: str
    rows: int
    batches: int
    bytes: int
    device: str
    subscribers: int = 0


def encode_listing(entries: list[Entry]) -> bytes:
    numbers = {kind: number for number, kind in KINDS.items()}
    out = [struct.pack("<I", len(entries))]
    for e in entries:
        out += [struct.pack("<BB", numbers[e.kind], 0), text(e.name), struct.pack("<QQQ", e.rows, e.batches, e.bytes)]
        out += [text(e.device), struct.pack("<I", e.subscribers)]
    return b"".join(out)


def decode_listing(payload: bytes) -> list[Entry]:
    r = Reader(payload, "LISTING")
    entries = []
    for _ in range(r.count(r("I"), 34)):
        kind = r("B")
        r.reserved("B")
        if kind not in KINDS:
            raise ProtocolError(f"LISTING: kind {kind}")
        name = r.text()
        rows, batches, size = r("QQQ")
        entries.append(Entry(KINDS[kind], name, rows, batches, size, r.text(), r("I")))
    r.finish()
    return entries


@dataclass
class Descriptor:
    """Describes memory of a process, so that another process can open it."""

    mechanism: int
    process: Process
    size: int
    offset: int
    length: int
    gpu: bytes = bytes(16)
    sequence: int = 0
    handle: bytes = b""
    pool: int = 0
    event: bytes = b""

    def encode(self) -> bytes:
        head = struct.pack("<BBBBIQQQ", 1, self.mechanism, bool(self.event), 0, self.process.pid, self.size, self.offset, self.length)
        where = struct.pack("<16s16sQQQ", self.gpu, self.process.machine, self.process.namespace, self.process.start, self.sequence)
        pool = struct.pack("<Q", self.pool) if self.mechanism == CUDA_POOL else b""
        return head + where + self.handle + pool + self.event

    @classmethod
    def decode(cls, r: Reader) -> "Descriptor":
        version, mechanism, flags = r("BBB")
        r.reserved("B")
        if version != 1 or mechanism not in MECHANISMS or flags > 1:
            raise ProtocolError(f"invalid descriptor: version {version}, mechanism {mechanism}, flags {flags}")
        pid, size, offset, length, gpu, machine, namespace, start, sequence = r("IQQQ16s16sQQQ")
        if offset + length > size:
            raise ProtocolError(f"descriptor: {length} bytes at {offset} exceed the {size} bytes of the allocation")
        handle = r.bytes(64) if mechanism in (LOCAL, CUDA_IPC, CUDA_POOL) else b""
        pool = r("Q") if mechanism == CUDA_POOL else 0
        if (mechanism == CUDA_POOL) != (pool > 0):
            raise ProtocolError("descriptor: got pool 0, want at least 1")
        event = r.bytes(64) if flags else b""
        r.finish()
        return cls(mechanism, Process(machine, namespace, start, pid), size, offset, length, gpu, sequence, handle, pool, event)


@dataclass
class Message:
    """An Arrow message, or an array with its layout. Regions of blocks hold its body."""

    metadata: bytes
    regions: list[tuple[int, int, int, int]]  # offset in the body, length, block, offset in the block


@dataclass
class Batch:
    lease: int
    sequence: int
    messages: list[Message] = field(default_factory=list)
    pending: bool = False

    def encode(self) -> bytes:
        out = [struct.pack("<QQBBHI", self.lease, self.sequence, self.pending, 0, len(self.messages), 0)]
        for m in self.messages:
            out += [struct.pack("<II", len(m.metadata), len(m.regions)), m.metadata]
            out += [struct.pack("<QQQQ", *region) for region in m.regions]
        return b"".join(out)

    @classmethod
    def decode(cls, payload: bytes) -> "Batch":
        r = Reader(payload, "BATCH")
        lease, sequence, flags = r("QQB")
        r.reserved("B")
        n = r("H")
        r.reserved("I")
        if flags > 1:
            raise ProtocolError(f"BATCH: flags: got {flags}, want 0 or 1")
        messages = []
        for _ in range(r.count(n, 8)):
            length, count = r("II")
            metadata = r.bytes(length)
            regions, last = [], 0
            for _ in range(r.count(count, 32)):
                region = r("QQQQ")
                if region[0] < last or region[1] == 0 or region[0] + region[1] >= 1 << 63:
                    raise ProtocolError(f"BATCH: invalid region of {region[1]} bytes at {region[0]}, after offset {last}")
                regions.append(region)
                last = region[0] + region[1]
            messages.append(Message(metadata, regions))
        r.finish()
        return cls(lease, sequence, messages, bool(flags))


def encode_numbers(numbers: list[int]) -> bytes:
    return struct.pack(f"<I{len(numbers)}Q", len(numbers), *numbers)


def decode_numbers(payload: bytes, what: str) -> list[int]:
    r = Reader(payload, what)
    numbers = [r("Q") for _ in range(r.count(r("I"), 8))]
    r.finish()
    return numbers


def encode_error(code: int, message: str) -> bytes:
    return struct.pack("<H", code) + text(message)


def decode_error(payload: bytes) -> tuple[int, str]:
    r = Reader(payload, "ERROR")
    code, message = r("H"), r.text()
    r.finish()
    return code, message


@dataclass
class LeaseStat:
    lease: int
    sequence: int
    bytes: int
    since: int  # Unix nanoseconds
    name: str


@dataclass
class ClientStat:
    """A client of the server, with its leases."""

    pid: int  # as the server sees it, 0 if unknown
    uid: int
    process: Process
    connected: int  # Unix nanoseconds
    leases: list[LeaseStat]


@dataclass
class BlockStat:
    block: int
    size: int
    mechanism: str
    leases: int
    clients: int
    device: str


@dataclass
class Stats:
    clients: list[ClientStat]
    blocks: list[BlockStat]


def encode_stats(stats: Stats) -> bytes:
    numbers = {name: number for number, name in MECHANISMS.items()}
    out = [struct.pack("<I", len(stats.clients))]
    for c in stats.clients:
        out += [struct.pack("<II", c.pid, c.uid), c.process.encode(), struct.pack("<QI", c.connected, len(c.leases))]
        for held in c.leases:
            out += [struct.pack("<QQQQ", held.lease, held.sequence, held.bytes, held.since), text(held.name)]
    out.append(struct.pack("<I", len(stats.blocks)))
    for b in stats.blocks:
        out += [struct.pack("<QQBBHII", b.block, b.size, numbers[b.mechanism], 0, 0, b.leases, b.clients), text(b.device)]
    return b"".join(out)


def decode_stats(payload: bytes) -> Stats:
    r = Reader(payload, "STATS")
    stats = Stats([], [])
    for _ in range(r.count(r("I"), 60)):
        pid, uid = r("II")
        process = Process.decode(r)
        connected, n = r("QI")
        leases = [LeaseStat(*r("QQQQ"), r.text()) for _ in range(r.count(n, 34))]
        stats.clients.append(ClientStat(pid, uid, process, connected, leases))
    for _ in range(r.count(r("I"), 30)):
        block, size, mechanism = r("QQB")
        r.reserved("BH")
        if mechanism not in MECHANISMS:
            raise ProtocolError(f"STATS: mechanism {mechanism}")
        leases, clients = r("II")
        stats.blocks.append(BlockStat(block, size, MECHANISMS[mechanism], leases, clients, r.text()))
    r.finish()
    return stats
