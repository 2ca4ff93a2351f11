"""The topic arrow: copies of record batches to a device and back, and IPC files, as
shares of the rate of pinned memory in the same run.

The peer of small batches is one driver allocation and one copy per buffer, the faster
of a loop in Go and one in C. The peer of large batches is CuPy, which copies buffer by
buffer. The peer of IPC files is pyarrow, which reads, with CuPy, which copies.
"""

import json
import subprocess
import sys
from pathlib import Path

import cudabuf
import cupy_limits
import gobench
from gobench import record

HERE = Path(__file__).resolve().parent
# Record, package, benchmark, limit, key of the peer.
LARGE = [
    ("copyto-pageable", "arrowbuf", "CopyTo/pageable", "h2d", "copyto"),
    ("copyto-pinned", "arrowbuf", "CopyTo/pinned", "h2d", "copyto-pinned"),
    ("tohost", "arrowbuf", "ToHost", "d2h", "tohost"),
]
IPC = [
    ("ipc-read", "arrowbuf/arrowipc", "IPCRead", "h2d", "ipc-read"),
    ("ipc-write", "arrowbuf/arrowipc", "IPCWrite", "d2h", "ipc-write"),
    ("ipc-write-file", "arrowbuf/arrowipc", "IPCWriteFile", "d2h", "ipc-write"),
]
LIMITS = {"h2d": "a copy of pinned memory to the device", "d2h": "a copy to pinned memory"}
SMALL = {"copyto-small": "8columns", "copyto-small-64": "64columns"}


class Figures:
    """The figures of peers and limits, and the records."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.records: list[dict] = []
        self.limits = {"h2d": cupy_limits.bus_copy(True), "d2h": cupy_limits.bus_copy(False)}
        cupy_limits.free()
        self.peers = self.attempt("CuPy", peers) or {}
        self.c = self.attempt("C", cudabuf.plain_c) or {}

    def attempt(self, what: str, measure, *arguments, **options):
        """Calls measure; an exception becomes a fault."""
        try:
            return measure(*arguments, **options)
        except Exception as e:  # the other figures remain useful
            self.faults.append(f"{what}: {e}")
            return None

    def rate(self, name: str, package: str, kinds: dict[str, float], limit: str, key: str) -> None:
        """Records the fastest kind of a benchmark; kinds maps names to GB/s."""
        if not kinds:
            self.faults.append(f"{name}: its benchmark gave no figure for the GPU, see the log")
            return
        best = max(kinds, key=kinds.__getitem__)
        options: dict = {"limit": LIMITS[limit], "limit_value": self.limits[limit]}
        if key in self.peers:
            options |= {"peer": self.peers[key]["how"], "peer_value": self.peers[key]["rate"]}
        if len(kinds) > 1:
            options["kinds"] = {kind: round(rate, 3) for kind, rate in kinds.items()}
        self.records.append(record.record(name, "GB/s", kinds[best], show(package, best), **options))


def peers() -> dict[str, dict]:
    run = subprocess.run([sys.executable, str(HERE / "arrow_peers.py")], capture_output=True, text=True, timeout=120)
    print(run.stdout, run.stderr, flush=True)
    if run.returncode:
        raise RuntimeError(f"arrow_peers.py: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout)


def show(package: str, benchmark: str) -> str:
    return f"go test ./{package} -bench '{benchmark.replace('/', '$/')}$'"


def large(figures: Figures, operations: list[tuple[str, str, str, str, str]]) -> None:
    """Measures batches and files of 1 GiB."""
    package = operations[0][1]
    names = "|".join(dict.fromkeys(benchmark.partition("/")[0] for _, _, benchmark, _, _ in operations))
    pattern = f"^Benchmark({names})$/^cuda$|^Benchmark({names})$/./^cuda$"
    got = figures.attempt(package, gobench.run, package, pattern, "-test.benchtime=10x", rounds=2, seconds=100) or {}
    rates = {name.removesuffix("/cuda"): units["MB/s"] / 1e3 for name, units in got.items() if name.endswith("/cuda")}
    for name, _, benchmark, limit, key in operations:
        kinds = {n: rate for n, rate in rates.items() if n == benchmark or n.startswith(f"{benchmark}/")}
        figures.rate(name, package, kinds, limit, key)


def small(figures: Figures) -> None:
    """Measures 10,000 batches of 64 KiB, or fewer if each takes milliseconds."""
    ours = figures.attempt("small batches", gobench.run, "arrowbuf", "^BenchmarkCopyToSmall$/^[0-9]+columns$/^cuda$", "-test.benchtime=10000x", rounds=3) or {}
    naive = figures.attempt("naive copies", gobench.run, "arrowbuf", "^BenchmarkCopyToSmall$/naive$/^cuda$", "-test.benchtime=300x", rounds=1) or {}
    for name, columns in SMALL.items():
        benchmark = f"CopyToSmall/{columns}"
        found = {"in Go": naive.get(f"{benchmark}-naive/cuda", {}).get("ns/op", 0) / 1e3, "in C": figures.c.get(f"naive_{columns}", 0)}
        found = {f"cuMemAlloc and a copy a buffer, {how}": us for how, us in found.items() if us}
        if f"{benchmark}/cuda" not in ours or not found:
            figures.faults.append(f"{name}: its benchmark gave no figure for the GPU, see the log")
            continue
        peer = min(found, key=found.__getitem__)
        options = {"peer": peer, "peer_value": found[peer], "peers": {how: round(us, 3) for how, us in found.items()}}
        figures.records.append(record.record(name, "us", ours[f"{benchmark}/cuda"]["ns/op"] / 1e3, show("arrowbuf", benchmark), **options))


def ranges(figures: Figures) -> None:
    """Measures copies of pageable memory in one range and in many, as in batches."""
    got = figures.attempt("ranges", gobench.run, "cudabuf", "^BenchmarkCopyRanges$/./^cuda$", "-test.benchtime=10x", rounds=3) or {}
    rates = {name.removesuffix("/cuda"): units["MB/s"] / 1e3 for name, units in got.items() if name.endswith("/cuda")}
    figures.rate("ranges-pageable", "cudabuf", rates, "h2d", "copyto")


def records() -> tuple[list[dict], list[str]]:
    figures = Figures()
    large(figures, LARGE)
    small(figures)
    ranges(figures)
    large(figures, IPC)
    return figures.records, figures.faults
