"""A client's connection: requests and their answers, blocks, and leases."""

import itertools
import os
import queue
import socket
import struct
import threading
import weakref

from . import cuda, frame, messages
from .blocks import Block
from .errors import FAULT, REFUSED, ProtocolError, ServerGone, ShareError, answered
from .frame import Frame, Framed
from .messages import CUDA_FD, CUDA_IPC, MEMORY, Descriptor, Hello, Welcome
from .process import this


# Requests that may be under way at a time, signs of life apart.
REQUESTS = 64

# Frames that end a request.
LAST = (frame.LISTING, frame.END, frame.STATS, frame.PONG, frame.ERROR)


class Lease:
    """The right to read a batch's bytes. It ends with the last reference to it."""

    def __init__(self, connection: "Connection", number: int, blocks: list[Block]):
        self.connection, self.blocks = connection, blocks
        gpus = {b.gpu for b in blocks if b.gpu is not None}
        self._end = weakref.finalize(self, connection.ended.put, (number, gpus))
        self._end.atexit = False

    def check(self) -> None:
        """ServerGone when nobody vouches for the bytes any more."""
        self.connection.check()


class Connection:
    """Threads serve it: one reads what the server sends, one gives back the leases
    that ended (a finalizer may run anywhere, so it only queues them), and where the
    server wants that, one says that this process lives."""

    def __init__(self, path: str, timeout: float):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect(path)
            self._check_peer(sock, path)
            self.framed = Framed(sock)
            self.welcome = self._greet()
            sock.settimeout(None)
        except TimeoutError as e:
            sock.close()
            raise ServerGone(f"{path}: no answer within {timeout} s") from e
        except BaseException:
            sock.close()
            raise
        self.path, self.lock = path, threading.Lock()
        self.numbers = itertools.count(1)
        self.waiting: dict[int, queue.SimpleQueue] = {}
        self.room = threading.BoundedSemaphore(REQUESTS)
        self.under_way: set[int] = set()  # requests that take room, until their end
        self.blocks: dict[int, tuple[Descriptor, int | None] | Block] = {}
        self.failure: Exception | None = None
        self.ended: queue.SimpleQueue = queue.SimpleQueue()
        self.over = threading.Event()
        threading.Thread(target=self._read, name="quiver-share reads", daemon=True).start()
        threading.Thread(target=self._keep, name="quiver-share releases", daemon=True).start()
        if self.welcome.silence:
            threading.Thread(target=self._live, name="quiver-share lives", daemon=True).start()

    @staticmethod
    def _check_peer(sock: socket.socket, path: str) -> None:
        _, uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (os.getuid(), 0):
            raise answered(REFUSED, f"{path}: the server is of user {uid}")

    def _greet(self) -> Welcome:
        gpus = cuda.gpus()
        ways = (CUDA_IPC, CUDA_FD, MEMORY) if gpus else (MEMORY,)
        self.framed.send(frame.HELLO, 0, Hello(this(), ways, tuple(g.uuid for g in gpus)).encode())
        answer = self.framed.receive()
        if answer is None:
            raise ServerGone("the server closed the connection instead of answering")
        if answer.type == frame.ERROR:
            raise answered(*messages.decode_error(answer.payload))
        if answer.type != frame.WELCOME:
            raise ProtocolError(f"a frame of type {answer.type} in answer to HELLO")
        return Welcome.decode(answer.payload)

    # ---- Requests

    def check(self) -> None:
        if self.failure is not None:
            raise ServerGone(f"{self.path}: {self.failure}") from self.failure

    def request(self, kind: int, payload: bytes = b"", at_once: bool = False) -> tuple[int, queue.SimpleQueue]:
        """Sends a request, when fewer are under way than may be."""
        while not at_once and not self.room.acquire(timeout=0.1):
            self.check()
        answers: queue.SimpleQueue = queue.SimpleQueue()
        with self.lock:
            self.check()
            number = next(self.numbers)
            self.waiting[number] = answers
            if not at_once:
                self.under_way.add(number)
        self.framed.send(kind, number, payload)
        return number, answers

    def answer(self, answers: queue.SimpleQueue) -> Frame:
        """The next frame of a request; what the server calls an error is raised."""
        got = answers.get()
        if got is None:
            self.check()
            raise ServerGone(f"{self.path}: closed")
        if got.type == frame.ERROR:
            raise answered(*messages.decode_error(got.payload))
        return got

    def forget(self, number: int) -> None:
        """Ends a request here. Batches that nobody took are given back."""
        with self.lock:
            answers = self.waiting.pop(number, None)
            while answers is not None and not answers.empty():
                self.give_back(answers.get())

    def give_back(self, got: Frame | None) -> None:
        if got is not None and got.type == frame.BATCH:
            self.ended.put((messages.Batch.decode(got.payload).lease, set()))

    def ask(self, kind: int, wanted: int) -> bytes:
        number, answers = self.request(kind)
        try:
            got = self.answer(answers)
        finally:
            self.forget(number)
        if got.type != wanted:
            raise ProtocolError(f"a frame of type {got.type} where {wanted} is due")
        return got.payload

    # ---- Blocks

    def block(self, number: int) -> Block:
        """A block, opened when it is first needed."""
        with self.lock:
            self.check()
            known = self.blocks.get(number)
            if known is None:
                raise ProtocolError(f"block {number} was never announced")
            if not isinstance(known, Block):
                descriptor, fd = known
                known = Block(descriptor, None if fd is None else os.dup(fd))
                self.blocks[number] = known  # only now: what failed may be tried again
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
                raise ProtocolError(f"FORGET of block {number}, which was never announced")
            if not isinstance(known, Block) and known[1] is not None:
                os.close(known[1])
            # A block that was opened is closed with its last reference, which is
            # this one: the server forgets only what no lease is in.
        del known
        self.framed.send(frame.FORGOTTEN, 0, messages.encode_numbers(numbers))

    # ---- Threads

    def _read(self) -> None:
        failure: Exception = ServerGone("the server is gone")
        try:
            while (got := self.framed.receive()) is not None:
                self._take(got)
        except ProtocolError as e:
            failure = e
            try:
                self.framed.send(frame.ERROR, 0, messages.encode_error(FAULT, str(e)))
            except ShareError:
                pass
        except Exception as e:  # of the system, or a fault of this package: nobody may wait for ever
            failure = e
        self.fail(failure)
        self.framed.close()

    def _take(self, got: Frame) -> None:
        if got.type == frame.BLOCK:
            if len(got.payload) < 8:
                raise ProtocolError("BLOCK without a number")
            (number,) = struct.unpack_from("<Q", got.payload)
            descriptor = Descriptor.decode(messages.Reader(got.payload[8:], "BLOCK"))
            with self.lock:
                if number in self.blocks:
                    raise ProtocolError(f"block {number} is announced twice")
                self.blocks[number] = (descriptor, got.fd)
            return
        if got.fd is not None:
            os.close(got.fd)
            raise ProtocolError(f"a frame of type {got.type} with a descriptor")
        if got.type == frame.FORGET:
            self._forget_blocks(messages.decode_numbers(got.payload, "FORGET"))
        elif got.type == frame.ERROR and got.request == 0:
            raise answered(*messages.decode_error(got.payload))
        elif got.type in (frame.LISTING, frame.SCHEMA, frame.BATCH, frame.END, frame.STATS, frame.PONG, frame.ERROR):
            with self.lock:
                if got.type in LAST and got.request in self.under_way:
                    self.under_way.remove(got.request)
                    self.room.release()
                if (answers := self.waiting.get(got.request)) is not None:
                    answers.put(got)
                else:  # nobody wants it any more
                    self.give_back(got)
        else:
            raise ProtocolError(f"a frame of type {got.type}")

    def _keep(self) -> None:
        while (ended := self.ended.get()) is not None:
            try:
                self._release(ended)
            except ShareError:
                if self.failure is not None:
                    return

    def _live(self) -> None:
        """Says that this process lives, four times in the silence that the server
        bears. Apart from releases, which wait for the GPU."""
        while not self.over.wait(self.welcome.silence / 4000):
            try:
                number, _ = self.request(frame.PING, at_once=True)
                self.forget(number)  # answers may wait while blocks are opened
            except ShareError:
                if self.failure is not None:
                    return

    def _release(self, ended: tuple[int, set]) -> None:
        number, gpus = ended
        for gpu in gpus:
            gpu.synchronize()  # kernels that were started may still read
        self.framed.send(frame.RELEASE, 0, messages.encode_numbers([number]))

    def fail(self, failure: Exception) -> None:
        with self.lock:
            if self.failure is None:
                self.failure = failure
            waiting, self.waiting = self.waiting, {}
            unopened = [b[1] for b in self.blocks.values() if not isinstance(b, Block)]
            self.blocks.clear()
        for fd in unopened:
            if fd is not None:
                os.close(fd)
        for answers in waiting.values():
            answers.put(None)
        self.over.set()
        self.ended.put(None)

    def close(self) -> None:
        self.fail(ServerGone("the connection was closed here"))
        self.framed.shutdown()
