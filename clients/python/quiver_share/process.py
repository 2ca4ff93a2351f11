"""The identity of a process, from which a peer chooses a mechanism for sharing."""

import os
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from .fields import Reader


@dataclass(frozen=True)
class Process:
    machine: bytes
    namespace: int
    start: int
    pid: int

    def encode(self) -> bytes:
        return struct.pack("<16sQQII", self.machine, self.namespace, self.start, self.pid, 0)

    @classmethod
    def decode(cls, r: Reader) -> "Process":
        machine, namespace, start, pid = r("16sQQI")
        r.reserved("I")
        return cls(machine, namespace, start, pid)


def current_process() -> Process:
    boot = uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    # Field 2 is a name in parentheses, which may contain any characters.
    numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return Process(boot.bytes, os.stat("/proc/self/ns/pid").st_ino, int(numbers[19]), os.getpid())
