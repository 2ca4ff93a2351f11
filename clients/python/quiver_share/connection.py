"""A client's connection: requests and their responses, blocks, and leases."""

import itertools
import os
import queue
import socket
import struct
import threading
import weakref

from . import cuda, frame, messages
from .blocks import Block
from .errors import FAULT, REFUSED, ProtocolError, ServerGone, ShareError, peer_error
from .frame import Frame, FramedSocket
from .messages import CUDA_FD, CUDA_IPC, MEMORY, Descriptor, Hello, Welcome
from .process import current_process


# The maximum number of concurrent requests, without keep-alives.
MAX_REQUESTS = 64

# Frames that end a request.
FINAL_TYPES = (frame.LISTING, frame.END, frame.STATS, frame.PONG, frame.ERROR)


class Lease:
    """The right to read a batch's bytes. It ends with the last reference to this object."""

    def __init__(self, connection: "Connection", number: int, blocks: list[Block]):
        self.connection, self.blocks = connection, blocks
        gpus = {b.gpu for b in blocks if b.gpu is not None}
        self._end = weakref.finalize(self, connection.ended_leases.put, (number, gpus))
        self._end.atexit = False

    def check(self) -> None:
        """Raises ServerGone if the server no longer protects the bytes."""
        self.connection.check()


class Connection:
    """A connection with threads of its own. One reads the server's frames. One releases
    ended leases, which finalizers only queue, since they may run anywhere. One sends
    keep-alives if the server asks for them."""

    def __init__(self, path: str, timeout: float):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect(path)
            self._check_peer(sock, path)
            self.framed = FramedSocket(sock)
            self.welcome = self._handshake()
            sock.settimeout(None)
        except TimeoutError as e:
            sock.close()
            raise ServerGone(f"{path}: no reply within {timeout} s") from e
        except BaseException:
            sock.close()
            raise
        self.path, self.lock = path, threading.Lock()
        self.request_numbers = itertools.count(1)
        self.pending: dict[int, queue.SimpleQueue] = {}
        self.slots = threading.BoundedSemaphore(MAX_REQUESTS)
        self.slot_holders: set[int] = set()  # requests that hold a slot
        self.blocks: dict[int, tuple[Descriptor, int | None] | Block] = {}
        self.failure: Exception | None = None
        self.ended_leases: queue.SimpleQueue = queue.SimpleQueue()
        self.stopped = threading.Event()
        threading.Thread(target=self._read_frames, name="quiver-share reader", daemon=True).start()
        threading.Thread(target=self._send_releases, name="quiver-share releases", daemon=True).start()
        if self.welcome.keep_alive_ms:
            threading.Thread(target=self._send_keep_alives, name="quiver-share keep-alive", daemon=True).start()

    @staticmethod
    def _check_peer(sock: socket.socket, path: str) -> None:
        _, uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (os.getuid(), 0):
            raise peer_error(REFUSED, f"{path}: user of the server: got {uid}, want {os.getuid()} or 0")

    def _handshake(self) -> Welcome:
        gpus = cuda.gpus()
        mechanisms = (CUDA_IPC, CUDA_FD, MEMORY) if gpus else (MEMORY,)
        self.framed.send(frame.HELLO, 0, Hello(current_process(), mechanisms, tuple(g.uuid for g in gpus)).encode())
        reply = self.framed.receive()
        if reply is None:
            raise ServerGone("the server closed the connection without a reply")
        if reply.type == frame.ERROR:
            raise peer_error(*messages.decode_error(reply.payload))
        if reply.type != frame.WELCOME:
            raise ProtocolError(f"got a frame of type {reply.type}, want WELCOME")
        return Welcome.decode(reply.payload)

    # ---- Requests

    def check(self) -> None:
        if self.failure is not None:
            raise ServerGone(f"{self.path}: {self.failure}") from self.failure

    def request(self, kind: int, payload: bytes = b"", ignore_limit: bool = False) -> tuple[int, queue.SimpleQueue]:
        """Sends a request as soon as the limit of concurrent requests allows it."""
        while not ignore_limit and not self.slots.acquire(timeout=0.1):
            self.check()
        responses: queue.SimpleQueue = queue.SimpleQueue()
        with self.lock:
            self.check()
            number = next(self.request_numbers)
            self.pending[number] = responses
            if not ignore_limit:
                self.slot_holders.add(number)
        self.framed.send(kind, number, payload)
        return number, responses

    def next_response(self, responses: queue.SimpleQueue) -> Frame:
        """Returns the next frame of a request. Raises the error of an ERROR frame."""
        got = responses.get()
        if got is None:
            self.check()
            raise ServerGone(f"{self.path}: closed")
        if got.type == frame.ERROR:
            raise peer_error(*messages.decode_error(got.payload))
        return got

    def end_request(self, number: int) -> None:
        """Removes a request and releases its unread batches."""
        with self.lock:
            responses = self.pending.pop(number, None)
            while responses is not None and not responses.empty():
                self.release_unread(responses.get())

    def release_unread(self, got: Frame | None) -> None:
        if got is not None and got.type == frame.BATCH:
            self.ended_leases.put((messages.Batch.decode(got.payload).lease, set()))

    def round_trip(self, kind: int, wanted: int) -> bytes:
        number, responses = self.request(kind)
        try:
            got = self.next_response(responses)
        finally:
            self.end_request(number)
        if got.type != wanted:
            raise ProtocolError(f"got a frame of type {got.type}, want {wanted}")
        return got.payload

    # ---- Blocks

    def block(self, number: int) -> Block:
        """Returns a block and opens it if needed."""
        with self.lock:
            self.check()
            known = self.blocks.get(number)
            if known is None:
                raise ProtocolError(f"block {number} was not announced")
            if not isinstance(known, Block):
                descriptor, fd = known
                known = Block(descriptor, None if fd is None else os.dup(fd))
                self.blocks[number] = known  # not before, so that opening can be retried after an error
                if fd is not None:
                    os.close(fd)
                weakref.finalize(known, known.finalizer()).atexit = False
            return known

    def _forget_blocks(self, numbers: list[int]) -> None:
        known = None
        for number in numbers:
            with self.lock:
                known = self.blocks.pop(number, None)
            if known is None:
                raise ProtocolError(f"FORGET of block {number}, which was not announced")
            if not isinstance(known, Block) and known[1] is not None:
                os.close(known[1])
            # Dropping the last reference closes the block. This is the last one, since
            # the server sends FORGET only for blocks without leases.
        del known
        self.framed.send(frame.FORGOTTEN, 0, messages.encode_numbers(numbers))

    # ---- Threads

    def _read_frames(self) -> None:
        failure: Exception = ServerGone("the server is gone")
        try:
            while (got := self.framed.receive()) is not None:
                self._handle(got)
        except ProtocolError as e:
            failure = e
            try:
                self.framed.send(frame.ERROR, 0, messages.encode_error(FAULT, str(e)))
            except ShareError:
                pass
        except Exception as e:  # wake all waiting threads after any other error
            failure = e
        self.fail(failure)
        self.framed.close()

    def _handle(self, got: Frame) -> None:
        if got.type == frame.BLOCK:
            if len(got.payload) < 8:
                raise ProtocolError(f"BLOCK: got {len(got.payload)} bytes, want at least 8")
            (number,) = struct.unpack_from("<Q", got.payload)
            descriptor = Descriptor.decode(messages.Reader(got.payload[8:], "BLOCK"))
            with self.lock:
                if number in self.blocks:
                    raise ProtocolError(f"block {number} was announced twice")
                self.blocks[number] = (descriptor, got.fd)
            return
        if got.fd is not None:
            os.close(got.fd)
            raise ProtocolError(f"got a frame of type {got.type} with a descriptor, want none")
        if got.type == frame.FORGET:
            self._forget_blocks(messages.decode_numbers(got.payload, "FORGET"))
        elif got.type == frame.ERROR and got.request == 0:
            raise peer_error(*messages.decode_error(got.payload))
        elif got.type in (frame.LISTING, frame.SCHEMA, frame.BATCH, frame.END, frame.STATS, frame.PONG, frame.ERROR):
            with self.lock:
                if got.type in FINAL_TYPES and got.request in self.slot_holders:
                    self.slot_holders.remove(got.request)
                    self.slots.release()
                if (responses := self.pending.get(got.request)) is not None:
                    responses.put(got)
                else:  # the request has ended
                    self.release_unread(got)
        else:
            raise ProtocolError(f"servers must not send frames of type {got.type}")

    def _send_releases(self) -> None:
        while (ended := self.ended_leases.get()) is not None:
            try:
                self._release(ended)
            except ShareError:
                if self.failure is not None:
                    return

    def _send_keep_alives(self) -> None:
        """Sends four keep-alives per timeout of the server. It is a thread of its own,
        since releases wait for the GPU."""
        while not self.stopped.wait(self.welcome.keep_alive_ms / 4000):
            try:
                number, _ = self.request(frame.PING, ignore_limit=True)
                self.end_request(number)  # opening blocks may delay the reply
            except ShareError:
                if self.failure is not None:
                    return

    def _release(self, ended: tuple[int, set]) -> None:
        number, gpus = ended
        for gpu in gpus:
            gpu.synchronize()  # running kernels may still read the memory
        self.framed.send(frame.RELEASE, 0, messages.encode_numbers([number]))

    def fail(self, failure: Exception) -> None:
        with self.lock:
            if self.failure is None:
                self.failure = failure
            pending, self.pending = self.pending, {}
            unopened = [b[1] for b in self.blocks.values() if not isinstance(b, Block)]
            self.blocks.clear()
        for fd in unopened:
            if fd is not None:
                os.close(fd)
        for responses in pending.values():
            responses.put(None)
        self.stopped.set()
        self.ended_leases.put(None)

    def close(self) -> None:
        self.fail(ServerGone("the connection was closed here"))
        self.framed.shutdown()
