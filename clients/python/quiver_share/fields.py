"""Little-endian fields of a message, read strictly and written."""

import struct
import unicodedata

from .errors import ProtocolError


class Reader:
    """Reads fields from the front of a payload."""

    def __init__(self, data: bytes, what: str):
        self.data, self.at, self.what = memoryview(data), 0, what

    def bytes(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: {n} bytes wanted at {self.at}, of {len(self.data)}")
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def __call__(self, form: str):
        """The fields of a struct format: their values, or the one value."""
        values = struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))
        return values if len(values) > 1 else values[0]

    def text(self) -> str:
        try:
            return self.bytes(self("H")).decode()
        except UnicodeDecodeError as e:
            raise ProtocolError(f"{self.what}: text that is not UTF-8") from e

    def zero(self, form: str) -> None:
        values = self(form)
        if any(values if isinstance(values, tuple) else (values,)):
            raise ProtocolError(f"{self.what}: reserved bytes are not 0")

    def count(self, n: int, size: int) -> int:
        """n, when n entries of at least size bytes can follow."""
        if n * size > len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: {n} entries do not fit into {len(self.data) - self.at} bytes")
        return n

    def rest(self) -> bytes:
        return self.bytes(len(self.data) - self.at)

    def end(self) -> None:
        if left := len(self.data) - self.at:
            raise ProtocolError(f"{self.what}: {left} bytes left over")


def name(s: str) -> bytes:
    """A name that something is published under, or ValueError."""
    if not 1 <= len(s.encode()) <= 255 or any(unicodedata.category(c) == "Cc" for c in s):
        raise ValueError(f"{s!r}: expected a name of 1 to 255 bytes without control characters")
    return text(s)


def text(s: str) -> bytes:
    raw = s.encode()
    return struct.pack("<H", len(raw)) + raw
