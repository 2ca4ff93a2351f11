"""The exceptions of this package."""


class ShareError(Exception):
    """The base of this package's errors."""


class ProtocolError(ShareError):
    """A message violates the protocol. The connection is closed."""


class ServerGone(ShareError):
    """The server or the connection has ended."""


class NoMechanism(ShareError):
    """This process cannot open the memory. The text says why."""


class CudaError(ShareError):
    """A CUDA driver call failed."""

    def __init__(self, call: str, code: int, name: str):
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class Refused(ShareError):
    """The peer sent an ERROR message."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{text} (error {code})")
        self.code = code


class NotFound(Refused, KeyError):
    """The server does not publish the name."""

    __str__ = Exception.__str__


FAULT, VERSION, REFUSED, NOT_FOUND, WRONG_KIND, MECHANISM, NO_MEMORY, FAILED, CLOSING, EXPIRED = range(1, 11)


def peer_error(code: int, text: str) -> Refused:
    return NotFound(code, text) if code == NOT_FOUND else Refused(code, text)
