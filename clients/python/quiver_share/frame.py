"""Frames on a Unix domain socket, and the file descriptors sent with them."""

import array
import os
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass

from .errors import ProtocolError, ServerGone

HEADER = struct.Struct("<IBBHI")
MAX_PAYLOAD = 16777216

(HELLO, WELCOME, LIST, LISTING, GET, SUBSCRIBE, CREDIT, CANCEL, SCHEMA, BLOCK, BATCH, END, RELEASE, FORGET, FORGOTTEN,
 STAT, STATS, PING, PONG, ERROR) = range(1, 21)  # fmt: skip


@dataclass
class Frame:
    type: int
    request: int
    payload: bytes
    fd: int | None = None


class FramedSocket:
    """A connected socket that carries frames. One thread may read while others write."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.writing = threading.Lock()
        self.received: deque[int] = deque()  # descriptors of later frames, in order

    def send(self, kind: int, request: int = 0, payload: bytes = b"", fd: int | None = None) -> None:
        if len(payload) > MAX_PAYLOAD:
            raise ValueError(f"payload: got {len(payload)} bytes, want at most {MAX_PAYLOAD}")
        data = HEADER.pack(len(payload), kind, fd is not None, 0, request) + payload
        ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        with self.writing:
            try:
                sent = self.sock.sendmsg([data], ancillary)
                self.sock.sendall(memoryview(data)[sent:])
            except OSError as e:
                raise ServerGone(f"the connection ended: {e}") from e

    def receive(self) -> Frame | None:
        """Returns the next frame, or None at the end of the connection."""
        header = self._read(HEADER.size, may_end=True)
        if header is None:
            return None
        length, kind, fds, reserved, request = HEADER.unpack(header)
        if length > MAX_PAYLOAD or fds > 1 or reserved:
            raise ProtocolError(f"invalid frame header: type {kind}, {length} bytes, {fds} descriptors, reserved {reserved}")
        payload = self._read(length)
        # Reading stops at the frame's end, so descriptors of the next frame cannot arrive.
        if len(self.received) != fds:
            raise ProtocolError(f"frame of type {kind}: got {len(self.received)} descriptors, want {fds}")
        return Frame(kind, request, payload, self.received.popleft() if fds else None)

    def _read(self, n: int, may_end: bool = False) -> bytes | None:
        data = bytearray()
        while len(data) < n:
            try:
                part, ancillary, flags, _ = self.sock.recvmsg(n - len(data), socket.CMSG_SPACE(4 * 16), socket.MSG_CMSG_CLOEXEC)
            except ConnectionError:
                part, ancillary, flags = b"", [], 0
            for level, kind, raw in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self.received.extend(array.array("i", raw[: len(raw) // 4 * 4]))
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("got more descriptors than a frame may have")
            if not part:
                if may_end and not data:
                    return None
                raise ServerGone(f"the connection ended inside a frame, after {len(data)} of {n} bytes")
            data += part
        return bytes(data)

    def shutdown(self) -> None:
        """Ends the connection, so that a reading thread returns."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.sock.close()
        while self.received:
            os.close(self.received.popleft())
