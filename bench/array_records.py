"""Makes records of BenchmarkArray in package ndview, with the figures of other
libraries and the limits, for a GPU and for the CPU. array_cases.py lists the cases."""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import array_cases
import record

PEERS = Path(__file__).resolve().parent / "array_peers.py"
Limit = Callable[[int], float]  # the limit for n bytes read and written
NAMES = {"cupy": "CuPy", "torch": "PyTorch"}


def peers(libraries: list[str], names: list[str], faults: list[str]) -> dict[str, dict[str, float]]:
    """The median seconds per library and case. A library that fails is added to
    faults."""
    found = {}
    for library in libraries:
        try:
            run = subprocess.run([sys.executable, str(PEERS), library], input="\n".join(names), capture_output=True, text=True, timeout=400)
            print(library, run.stderr, flush=True)
            found[NAMES[library]] = {name: statistics.median(v) for name, v in json.loads(run.stdout).items() if v is not None}
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            faults.append(f"{NAMES[library]}: {e}")
    return found


def records(device: str, times: dict[str, float], others: dict[str, dict[str, float]], limits: dict[str, Limit]) -> list[dict]:
    """One record per case in times, which holds seconds; others holds the seconds of
    peers. limits has GB/s for copy and fill and microseconds for launch, if known."""
    found = []
    for name, seconds in times.items():
        case = array_cases.parse(name)
        less = case.kind == "small"
        figure = lambda s: s * 1e6 if less else case.bytes / s / 1e9  # noqa: B023, E731
        best = {k: round(figure(v[name]), 4) for k, v in others.items() if name in v}
        options = {}
        if best:
            peer = (min if less else max)(best, key=best.__getitem__)
            options = {"peer": peer, "peer_value": best[peer], "peers": best}
        limit = "launch" if less else "fill" if case.kind in ("fill", "zeros") else "copy"
        if limit in limits:
            what = {"launch": "a bare launch in C", "fill": "the driver's memset", "copy": "the fastest copy of at most as many bytes on the device"}[limit]
            options |= {"limit": what, "limit_value": limits[limit](case.bytes) / (1 if less else array_cases.sectors(case))}
        title = ("cpu-" if device == "cpu" else "") + array_cases.record_name(name)
        command = f"go test ./ndview -bench 'BenchmarkArray/{device}/{re.escape(name)}$'"
        found.append(record.record(title, "us" if less else "GB/s", figure(seconds), command, **options))
    return found
