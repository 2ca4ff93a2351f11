"""Records measurements in bench/results/DATE-MACHINE-TOPIC.json."""

import datetime
import json
import os
import platform
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Units for which less is better: time, memory, and memory held over memory needed.
COSTS = {"us", "s", "MiB", "held/peak"}


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
    """Describes the machine and the commit. name identifies the machine in file names;
    the default is the name of its GPUs, such as h200-x2."""
    if commit is None:
        commit = output_of("git", "rev-parse", "--short=12", "HEAD")
        # Results of an earlier topic are no modification.
        if output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!bench/plots"):
            commit += "-modified"
    gpus = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    gpu, _, driver = gpus[0].partition(", ") if gpus else ("", "", "")
    if not name:
        model = re.sub(r" \d+gb.*", "", gpu.lower().removeprefix("nvidia "))  # "h100 80gb hbm3"
        name = re.sub(r"[^a-z0-9]+", "-", model) or "gpu"
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
    """Writes a result file. tests counts passed, failed and skipped tests, if any
    ran."""
    path = folder / f"{machine['date']}-{machine['name']}-{topic}.json"
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"machine": machine} | ({"tests": tests} if tests else {}) | more, indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(r)}" for r in records)  # one per line: there may be hundreds
    path.write_text(f'{head},\n  "records": [\n{lines}\n  ]\n}}\n')
    return path


def record(name: str, unit: str, value: float, command: str, *, peer: str = "", peer_value: float = 0,
           limit: str = "", limit_value: float = 0, **more) -> dict:  # fmt: skip
    """Makes the record of one figure. ratio is how many times better it is than the
    peer's, and share is its part of the limit; both were measured in the same run. Less
    is better for units in COSTS, otherwise more."""
    less = unit in COSTS
    entry = {"name": name, "unit": unit, "value": round(value, 4)}
    if peer:
        better = peer_value / value if less else value / peer_value
        entry |= {"peer": peer, "peer_value": round(peer_value, 4), "ratio": round(better, 3)}
    if limit:
        share = limit_value / value if less else value / limit_value
        entry |= {"limit": f"{limit}: {limit_value:.4g} {unit}", "share": round(share, 3)}
    return entry | {"command": command} | more
