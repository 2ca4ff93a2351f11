"""The topic collective: operations of ndview/collective between two processes with a GPU
each, beside PyTorch's on the same NCCL. Both sides take turns, a process per rank and turn,
and the figure of a side is the median of its turns.

NVLink multicast stays off (NCCL_NVLS_ENABLE=0).
"""

import json
import os
import site
import socket
import statistics
import subprocess
import sys
from pathlib import Path

import gobench
import record

HERE = Path(__file__).resolve().parent
TURNS = 3
COMMAND = "QUIVER_COLLECTIVE_TASK=bench ndview+collective, a process per rank (bench/gpu/collective.py)"


def library() -> str:
    """The NCCL of PyTorch."""
    places = [Path(p) / "nvidia/nccl/lib/libnccl.so.2" for p in [*site.getsitepackages(), site.getusersitepackages(), *sys.path]]
    return str(next(p for p in places if p.exists()))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def turn(command: list[str]) -> list[dict]:
    """Runs a process per rank and returns the lines of rank 0."""
    port = str(free_port())
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NCCL_NVLS_ENABLE": "0",
                           "QUIVER_LIBNCCL": library(), "QUIVER_COLLECTIVE_TASK": "bench", "QUIVER_COLLECTIVE_DEVICE": "cuda"}  # fmt: skip
    ranks = [subprocess.Popen(command, env=shared | {"RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(2)]
    outputs = [p.communicate(timeout=100)[0] for p in ranks]
    if any(p.returncode for p in ranks):
        raise RuntimeError(f"{command}: {outputs}")
    return [json.loads(line) for line in outputs[0].splitlines() if line.startswith("{")]


def measure(binary: Path) -> tuple[dict, list[dict], dict]:
    """Returns the versions, the records and every figure of every turn."""
    sides = {"ours": [str(binary)], "PyTorch": [sys.executable, str(HERE / "collective_peers.py")]}
    versions, figures = {}, {side: {} for side in sides}
    for _ in range(TURNS):
        for side, command in sides.items():
            for line in turn(command):
                if "Name" not in line:
                    versions |= line
                    continue
                for way in ("Stream", "Latency"):
                    figures[side].setdefault((line["Name"], line["Bytes"], way), []).append(line[way])
    records = []
    for (name, size, way), values in figures["ours"].items():
        ours, peer = statistics.median(values), statistics.median(figures["PyTorch"][name, size, way])
        text = f"{size >> 20}mib" if size >= 1 << 20 else f"{size >> 10}kib"
        if way == "Stream" and size >= 1 << 20:
            records.append(record.record(f"{name}-{text}", "GB/s", size / ours / 1e9, COMMAND, peer="PyTorch", peer_value=size / peer / 1e9))
        else:
            kind = "latency" if way == "Latency" else "each"
            records.append(record.record(f"{name}-{kind}-{text}", "us", ours * 1e6, COMMAND, peer="PyTorch", peer_value=peer * 1e6))
    every = {side: {" ".join(map(str, key)): values for key, values in found.items()} for side, found in figures.items()}
    return versions, records, every


def main(binary: str, out: str) -> None:
    versions, records, every = measure(Path(binary).resolve())
    machine = record.machine(versions, commit=os.environ.get("COMMIT") or gobench.commit())
    record.write(Path(out), "collective", machine, records)
    (Path(out) / "collective-turns.json").write_text(json.dumps(every, indent=1))
    for r in records:
        print(r["name"], r["value"], r["unit"], r["peer_value"], r["ratio"])


if __name__ == "__main__":
    main(*sys.argv[1:])
