"""The topic collective: operations of ndview/collective between two processes with a GPU
each, beside PyTorch's on the same NCCL. It needs two GPUs.

Both sides take turns, a process per rank and turn, and the figure of a side is the median
of its turns. "latency" is the time of an operation and a wait for it. NVLink multicast
stays off (NCCL_NVLS_ENABLE=0).
"""

import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

import gobench
import record

HERE = Path(__file__).resolve().parent
TURNS = 3
COMMAND = "QUIVER_COLLECTIVE_TASK=bench with the tests of ndview/collective, a process per rank (bench/gpu/collective.py)"
SIDES = {"ours": [str(gobench.GPU / "tests" / "ndview+collective")], "PyTorch": [sys.executable, str(HERE / "collective_peers.py")]}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def turn(command: list[str]) -> list[dict]:
    """Runs a process per rank and returns the lines of rank 0."""
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "NCCL_NVLS_ENABLE": "0",
                           "QUIVER_LIBNCCL": gobench.nccl(), "QUIVER_COLLECTIVE_TASK": "bench", "QUIVER_COLLECTIVE_DEVICE": "cuda"}  # fmt: skip
    ranks = [subprocess.Popen(command, env=shared | {"RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(2)]
    outputs = [p.communicate(timeout=100)[0] for p in ranks]
    if any(p.returncode for p in ranks):
        raise RuntimeError(f"{command}: {outputs}")
    return [json.loads(line) for line in outputs[0].splitlines() if line.startswith("{")]


def figure(name: str, size: int, way: str, ours: float, peer: float) -> dict:
    """Makes the record of seconds of both sides."""
    text = f"{size >> 20}mib" if size >= 1 << 20 else f"{size >> 10}kib"
    if way == "Stream" and size >= 1 << 20:
        return record.record(f"{name}-{text}", "GB/s", size / ours / 1e9, COMMAND, peer="PyTorch", peer_value=size / peer / 1e9)
    kind = "latency" if way == "Latency" else "each"
    return record.record(f"{name}-{kind}-{text}", "us", ours * 1e6, COMMAND, peer="PyTorch", peer_value=peer * 1e6)


def records() -> tuple[list[dict], list[str]]:
    figures: dict[str, dict] = {side: {} for side in SIDES}
    for _ in range(TURNS):
        for side, command in SIDES.items():
            for line in turn(command):
                print(side, line, flush=True)
                for way in ("Stream", "Latency"):
                    figures[side].setdefault((line["Name"], line["Bytes"], way), []).append(line[way])
    made = []
    for key, values in figures["ours"].items():
        made.append(figure(*key, statistics.median(values), statistics.median(figures["PyTorch"][key])))
    return made, []
