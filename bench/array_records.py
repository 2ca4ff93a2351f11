"""Records of what BenchmarkArray of package ndview measured, beside other
libraries and limits: what array_cases.py lists, for a GPU and for the CPU."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import array_cases
import record

PEERS = Path(__file__).resolve().parent / "array_peers.py"
Limit = Callable[[int], float]  # of so many bytes read and written
NAMES = {"numpy": "NumPy", "cupy": "CuPy", "torch": "PyTorch"}


def peers(libraries: list[str], names: list[str], faults: list[str]) -> dict[str, dict[str, float]]:
    """The figures of each library, by case. One that fails is a fault."""
    found = {}
    for library in libraries:
        try:
            run = subprocess.run([sys.executable, str(PEERS), library], input="\n".join(names), capture_output=True, text=True, timeout=400)
            print(library, run.stderr, flush=True)
            found[library] = {name: v for name, v in json.loads(run.stdout).items() if v is not None}
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            faults.append(f"{NAMES[library]}: {e}")
            found[library] = {}
    return found


def records(device: str, figures: dict[str, dict[str, float]], libraries: list[str], limits: dict[str, Limit], faults: list[str]) -> list[dict]:
    """One for each case that figures has nanoseconds of. limits are GB/s of copy
    and of fill, and the microseconds of launch, where they are known."""
    prefix = f"Array/{device}/"
    times = {name.removeprefix(prefix): units["ns/op"] for name, units in figures.items() if name.startswith(prefix)}
    others = peers(libraries, list(times), faults)
    found = []
    for name, ns in times.items():
        case = array_cases.parse(name)
        less = case.kind == "small"
        best = {NAMES[k]: round(v[name], 4) for k, v in others.items() if name in v}
        options = {}
        if best:
            peer = (min if less else max)(best, key=best.__getitem__)
            options = {"peer": peer, "peer_value": best[peer], "peers": best}
        limit = "launch" if less else "fill" if case.kind in ("fill", "zeros") else "copy"
        if limit in limits:
            what = {"launch": "a bare launch in C", "fill": "the driver's memset", "copy": "the fastest copy of at most as many bytes on the device"}[limit]
            options |= {"limit": what, "limit_value": limits[limit](case.bytes) / (1 if less else array_cases.sectors(case))}
        title = ("cpu-" if device == "cpu" else "") + array_cases.record_name(name)
        value, unit = (ns / 1e3, "us") if less else (case.bytes / ns, "GB/s")
        command = f"go test ./ndview -bench 'BenchmarkArray/{device}/{re.escape(name)}$'"
        found.append(record.record(title, unit, value, command, **options))
    return found
