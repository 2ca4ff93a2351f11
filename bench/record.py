"""Records of measurements: bench/results/DATE-MACHINE-TOPIC.json."""

import datetime
import json
import os
import platform
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Units of what should be small: microseconds, and memory held over memory needed.
COSTS = {"us", "held/peak"}


def output_of(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {len(os.sched_getaffinity(0))} cores"
    return f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def machine(versions: dict[str, str], name: str = "", commit: str | None = None) -> dict:
    """What the figures were measured on. name tells machines apart in file names;
    unless it is given it is that of the GPUs, as in h200-x2."""
    if commit is None:
        commit = output_of("git", "rev-parse", "--short=12", "HEAD")
        # Results of an earlier topic do not change what is measured in the next.
        if output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!bench/plots"):
            commit += "-modified"
    gpus = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    gpu, _, driver = gpus[0].partition(", ") if gpus else ("", "", "")
    if not name:
        name = re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia ")) or "gpu"
        name += f"-x{len(gpus)}" * (len(gpus) > 1)
    return {
        "name": name,
        "cpu": cpu(),
        "gpu": f"{len(gpus)} x {gpu}" if len(gpus) > 1 else gpu,
        "driver": driver,
        "versions": versions,
        "commit": commit,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def write(folder: Path, topic: str, machine: dict, records: list[dict], *, tests: dict | None = None, **more) -> Path:
    """Writes a result file. tests counts passed, failed and skipped, where there
    were any."""
    path = folder / f"{machine['date']}-{machine['name']}-{topic}.json"
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"machine": machine} | ({"tests": tests} if tests else {}) | more, indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(r)}" for r in records)  # one a line, since there may be hundreds
    path.write_text(f'{head},\n  "records": [\n{lines}\n  ]\n}}\n')
    return path


def record(name: str, unit: str, value: float, command: str, *, peer: str = "", peer_value: float = 0,
           limit: str = "", limit_value: float = 0, **more) -> dict:  # fmt: skip
    """One figure. ratio says how many times better than the peer's it is, share
    the part of a limit that it reaches; the peer and the limit were measured in
    the same run. Of rates more is better, of what COSTS counts less is."""
    less = unit in COSTS
    entry = {"name": name, "unit": unit, "value": round(value, 4)}
    if peer:
        better = peer_value / value if less else value / peer_value
        entry |= {"peer": peer, "peer_value": round(peer_value, 4), "ratio": round(better, 3)}
    if limit:
        share = limit_value / value if less else value / limit_value
        entry |= {"limit": f"{limit}: {limit_value:.4g} {unit}", "share": round(share, 3)}
    return entry | {"command": command} | more
