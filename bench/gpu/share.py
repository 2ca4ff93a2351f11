"""The topic share: access to a batch of 64 columns and 1 GiB in another process's GPU
memory, and small batches streamed to 4 processes.

The peers copy: arrow-go's IPC over a Unix socket, measured in Go, and pyarrow's IPC
over a file in shared memory (share_peers.py). Both include the copy to the GPU.
"""

import json
import subprocess
import sys
from pathlib import Path

import gobench
from gobench import record

HERE = Path(__file__).resolve().parent
SOCKET = "arrow-go IPC over a Unix socket, and a copy to the GPU"
SHM = "pyarrow IPC in shared memory, and a copy to the GPU"


class Figures:
    """The records and the faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.records: list[dict] = []

    def attempt(self, what: str, measure, *arguments, **options):
        """Calls measure; an exception becomes a fault."""
        try:
            return measure(*arguments, **options)
        except Exception as e:  # the other figures remain useful
            self.faults.append(f"{what}: {e}")
            return {}


def shared_memory() -> dict[str, float]:
    run = subprocess.run([sys.executable, str(HERE / "share_peers.py")], capture_output=True, text=True, timeout=120)
    print(run.stdout, run.stderr, flush=True)
    if run.returncode:
        raise RuntimeError(f"share_peers.py: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout)


def show(benchmark: str) -> str:
    return f"go test ./ipc -bench '{benchmark.replace('/', '$/')}$'"


def whole(figures: Figures) -> None:
    """Measures a batch of 1 GiB with each way to share GPU memory."""
    ours = figures.attempt("share", gobench.run, "ipc", "^BenchmarkShare$/./^cuda-(fd|ipc|pool)$/^cuda$", "-test.benchtime=100x", rounds=3)
    socket = figures.attempt("socket", gobench.run, "ipc", "^BenchmarkSocket$/^cuda$", "-test.benchtime=3x", rounds=3)
    peers = {SOCKET: socket.get("Socket/cuda", {}).get("ns/op", 0) / 1e3, SHM: figures.attempt("pyarrow", shared_memory).get("us", 0)}
    for name, kind, peer in (
        ("share-first", "first", ""),
        ("share-cached", "cached", ""),
        ("share-vs-socket", "first", SOCKET),
        ("share-vs-shm", "first", SHM),
    ):
        ways = {way: ours[f"Share/{kind}/{way}/cuda"]["ns/op"] / 1e3 for way in ("cuda-fd", "cuda-ipc", "cuda-pool") if f"Share/{kind}/{way}/cuda" in ours}
        if not ways or peer and not peers[peer]:
            figures.faults.append(f"{name}: its benchmark gave no figure for the GPU, see the log")
            continue
        options: dict = {"peer": peer, "peer_value": peers[peer]} if peer else {}
        # The default of a client.
        way = "cuda-fd" if "cuda-fd" in ways else "cuda-ipc"
        kinds = {w: round(us, 2) for w, us in ways.items()}
        figures.records.append(record.record(name, "us", ways[way], show(f"Share/{kind}/{way}/cuda"), kinds=kinds, **options))


def stream(figures: Figures) -> None:
    """Measures 10,000 batches per second for 3 seconds."""
    got = figures.attempt("stream", gobench.run, "ipc", "^BenchmarkStream$/^cuda$", "-test.benchtime=30000x", rounds=3).get("Stream/cuda")
    if not got:
        figures.faults.append("share-stream: its benchmark gave no figure for the GPU, see the log")
        return
    figures.records.append(record.record("share-stream", "us", got["p99-us"], show("Stream/cuda") + " -benchtime 30000x",
                                         median=round(got["p50-us"], 2), batches_per_second=round(got["batches/s"], 1)))  # fmt: skip


def records() -> tuple[list[dict], list[str]]:
    figures = Figures()
    whole(figures)
    stream(figures)
    return figures.records, figures.faults
