"""Reading and writing of the little-endian fields of messages."""

import struct
import unicodedata

from .errors import ProtocolError


class Reader:
    """Reads the fields of a payload in order."""

    def __init__(self, data: bytes, what: str):
        self.data, self.at, self.what = memoryview(data), 0, what

    def bytes(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: got {len(self.data)} bytes, want at least {self.at + n}")
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def __call__(self, form: str):
        """Reads fields of a struct format. Returns their values, or a single value."""
        values = struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))
        return values if len(values) > 1 else values[0]

    def text(self) -> str:
        try:
            return self.bytes(self("H")).decode()
        except UnicodeDecodeError as e:
            raise ProtocolError(f"{self.what}: the text is not UTF-8") from e

    def reserved(self, form: str) -> None:
        values = self(form)
        if any(values if isinstance(values, tuple) else (values,)):
            raise ProtocolError(f"{self.what}: reserved bytes are not 0")

    def count(self, n: int, size: int) -> int:
        """Returns n, after checking that n entries of at least size bytes can follow."""
        if n * size > len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: {n} entries do not fit in {len(self.data) - self.at} bytes")
        return n

    def rest(self) -> bytes:
        return self.bytes(len(self.data) - self.at)

    def finish(self) -> None:
        if left := len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: {left} bytes left over")


def name(s: str) -> bytes:
    """Encodes a published name. Raises ValueError if it is invalid."""
    if not 1 <= len(s.encode()) <= 255 or any(unicodedata.category(c) == "Cc" for c in s):
        raise ValueError(f"name: got {s!r}, want 1 to 255 bytes without control characters")
    return text(s)


def text(s: str) -> bytes:
    raw = s.encode()
    return struct.pack("<H", len(raw)) + raw
