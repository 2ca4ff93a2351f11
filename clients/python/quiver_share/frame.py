"""Frames on a Unix domain socket, with the file descriptors that travel along."""

import array
import os
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass

from .errors import ProtocolError, ServerGone

HEADER = struct.Struct("<IBBHI")
LARGEST = 16777216

(HELLO, WELCOME, LIST, LISTING, GET, SUBSCRIBE, CREDIT, CANCEL, SCHEMA, BLOCK, BATCH, END, RELEASE, FORGET, FORGOTTEN,
 STAT, STATS, PING, PONG, ERROR) = range(1, 21)  # fmt: skip


@dataclass
class Frame:
    type: int
    request: int
    payload: bytes
    fd: int | None = None


class Framed:
    """A connected socket as frames. One thread may read while others write."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.writing = threading.Lock()
        self.received: deque[int] = deque()  # descriptors, in order, that no frame took yet

    def send(self, kind: int, request: int = 0, payload: bytes = b"", fd: int | None = None) -> None:
        if len(payload) > LARGEST:
            raise ValueError(f"a message of {len(payload)} bytes is larger than a frame's {LARGEST}")
        data = HEADER.pack(len(payload), kind, fd is not None, 0, request) + payload
        along = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        with self.writing:
            try:
                sent = self.sock.sendmsg([data], along)
                self.sock.sendall(memoryview(data)[sent:])
            except OSError as e:
                raise ServerGone(f"the connection ended: {e}") from e

    def receive(self) -> Frame | None:
        """The next frame, None at the end of the connection."""
        header = self._read(HEADER.size, may_end=True)
        if header is None:
            return None
        length, kind, fds, reserved, request = HEADER.unpack(header)
        if length > LARGEST or fds > 1 or reserved:
            raise ProtocolError(f"a frame of type {kind} claims {length} bytes, {fds} descriptors, reserved {reserved}")
        payload = self._read(length)
        # Reading ends with the frame, so no descriptor can be the next one's.
        if len(self.received) != fds:
            raise ProtocolError(f"a frame of type {kind} comes with {len(self.received)} descriptors, {fds} are announced")
        return Frame(kind, request, payload, self.received.popleft() if fds else None)

    def _read(self, n: int, may_end: bool = False) -> bytes | None:
        data = bytearray()
        while len(data) < n:
            try:
                part, along, flags, _ = self.sock.recvmsg(n - len(data), socket.CMSG_SPACE(4 * 16), socket.MSG_CMSG_CLOEXEC)
            except ConnectionError:
                part, along, flags = b"", [], 0
            for level, kind, raw in along:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self.received.extend(array.array("i", raw[: len(raw) // 4 * 4]))
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("more descriptors came than a frame may bring")
            if not part:
                if may_end and not data:
                    return None
                raise ServerGone(f"the connection ended within a frame, {len(data)} of {n} bytes")
            data += part
        return bytes(data)

    def shutdown(self) -> None:
        """Ends the connection; a thread that reads sees its end."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.sock.close()
        while self.received:
            os.close(self.received.popleft())
