"""The topic columns: Take at random indices, Filter of half the elements, and
Concatenate, for numbers and for strings of 8, 40 and 1000 bytes on average. Figures are
GB/s of the result; the limit is a copy of the same bytes on the device.

Multiply, Greater, FillNull and Sum of float64 with nulls are beside them; their figures
are GB/s of the numbers that are read and written.

The peer for numbers is CuPy. The peer for strings, which CuPy lacks, is pyarrow on the
host (columns_peers.py).
"""

import json
import subprocess
import sys
from pathlib import Path

import cupy_limits
import gobench
from gobench import record

HERE = Path(__file__).resolve().parent
OPERATIONS = {"take": "Take", "filter": "Filter", "concatenate": "Concatenate"}
COLUMNS = ("int32", "float64-nulls", "utf8-8", "utf8-40", "utf8-1000", "list-int16")

COMPUTE = ("multiply", "greater", "fill_null", "sum")


def peers() -> dict[str, dict]:
    run = subprocess.run([sys.executable, str(HERE / "columns_peers.py")], capture_output=True, text=True, timeout=240)
    print(run.stdout, run.stderr, flush=True)
    if run.returncode:
        raise RuntimeError(f"columns_peers.py: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout)


def records() -> tuple[list[dict], list[str]]:
    made, faults = [], []
    limit = {"limit": "a copy of as many bytes on the device", "limit_value": cupy_limits.device_copy() / 2}
    cupy_limits.free()
    try:
        beside = peers()
    except Exception as e:  # the other figures remain useful
        beside = {}
        faults.append(f"peers: {e}")
    pattern = f"^Benchmark({'|'.join(OPERATIONS.values())}|Compute)$/^cuda$"
    ours = gobench.run("ndview/columns", pattern, "-test.benchtime=20x", rounds=2)
    for name, benchmark in OPERATIONS.items():
        for column in COLUMNS:
            got = ours.get(f"{benchmark}/cuda/{column}")
            if not got:
                faults.append(f"columns-{name}-{column}: its benchmark gave no figure for the GPU, see the log")
                continue
            peer = beside.get(f"{name}-{column}")
            options = {"peer": peer["how"], "peer_value": peer["rate"]} if peer else {}
            command = f"go test ./ndview/columns -bench '{benchmark}$/cuda$/{column}$'"
            made.append(record.record(f"columns-{name}-{column}", "GB/s", got["MB/s"] / 1e3, command, **limit, **options))
    for name in COMPUTE:
        got = ours.get(f"Compute/cuda/{name}")
        if not got:
            faults.append(f"columns-compute-{name}: its benchmark gave no figure for the GPU, see the log")
            continue
        peer = beside.get(f"compute-{name}")
        options = {"peer": peer["how"], "peer_value": peer["rate"]} if peer else {}
        command = f"go test ./ndview/columns -bench 'Compute$/cuda$/{name}$'"
        made.append(record.record(f"columns-compute-{name}", "GB/s", got["MB/s"] / 1e3, command, **options))
    return made, faults
