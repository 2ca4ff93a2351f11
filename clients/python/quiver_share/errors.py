"""What can go wrong, as exceptions that a caller tells apart."""


class ShareError(Exception):
    """The base of this package's errors."""


class ProtocolError(ShareError):
    """A message that breaks the protocol. The connection is closed."""


class ServerGone(ShareError):
    """The server, or the connection to it, ended."""


class NoMechanism(ShareError):
    """Memory that cannot be opened here. The text names what it would take."""


class CudaError(ShareError):
    """A call of the CUDA driver failed."""

    def __init__(self, call: str, code: int, name: str):
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class Refused(ShareError):
    """An ERROR message of the other side."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{text} (error {code})")
        self.code = code


class NotFound(Refused, KeyError):
    """The server has nothing of that name."""

    __str__ = Exception.__str__


FAULT, VERSION, REFUSED, NO_NAME, OTHER_KIND, MECHANISM, NO_MEMORY, FAILED, CLOSING, EXPIRED = range(1, 11)


def answered(code: int, text: str) -> Refused:
    return NotFound(code, text) if code == NO_NAME else Refused(code, text)
