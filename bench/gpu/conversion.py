"""The topic convert: the stages of `arrow2zarr convert --device cuda`. The limit of
the copy stages is the rate of pinned memory."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import cupy_limits
import gobench
import numpy as np
import pyarrow as pa

import gen
import record

ROUNDS = 5
TIMES = 24  # the input of the conversion, in GiB


def lengthen(path: Path, times: int) -> Path:
    """Repeats the batches, and adds two columns that need kernels: one of booleans, one
    with nulls."""
    longer = path.with_stem(f"{path.stem}-{times}-times")
    rng = np.random.default_rng(7)
    flags = pa.array(rng.random(gen.BATCH) < 0.5)
    depths = pa.array(rng.random(gen.BATCH).astype(np.float32), mask=rng.random(gen.BATCH) < 0.1)
    with pa.ipc.open_file(pa.memory_map(str(path))) as source:
        schema = source.schema.append(pa.field("flag", pa.bool_())).append(pa.field("depth", pa.float32()))
        with pa.ipc.new_file(str(longer), schema) as sink:
            for i in list(range(source.num_record_batches)) * times:
                sink.write_batch(pa.record_batch([*source.get_batch(i).columns, flags, depths], schema))
    return longer


def records() -> tuple[list[dict], list[str]]:
    """The rates of the stages of a conversion from memory to memory. The input is so
    long that the cost of pinning memory at the start is small."""
    folder = Path(tempfile.mkdtemp(prefix="quiver-", dir="/dev/shm"))
    try:
        gen.main(folder)
        source = lengthen(folder / "stations.arrow", TIMES)
        best: dict[str, float] = {}
        wall = 0.0
        # Half of the cores encode; the others read and serve the device.
        jobs = str(max(1, len(os.sched_getaffinity(0)) // 2))
        flags = ["--device", "cuda", "--codec", "none", "--chunk-rows", str(gen.BATCH), "--jobs", jobs, "--json", "--no-progress"]
        for _ in range(ROUNDS):
            output = folder / "out.zarr"
            shutil.rmtree(output, ignore_errors=True)
            command = [str(gobench.GPU / "arrow2zarr"), "convert", str(source), str(output), *flags]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}\n{run.stderr}")
            summary = json.loads(run.stdout)
            print(run.stdout)
            wall = max(wall, summary["bytes_per_second"] / 1e9)
            for stage in summary["stages"]:
                if stage["bytes"] and stage["seconds"]:
                    best[stage["name"]] = max(best.get(stage["name"], 0), stage["bytes_per_second"] / 1e9)
    finally:
        shutil.rmtree(folder)
    shown = f"arrow2zarr convert {source.name} OUT {' '.join(flags)}"
    limits = {"h2d": cupy_limits.bus_copy(True), "d2h": cupy_limits.bus_copy(False)}
    found = [record.record("convert-cuda", "GB/s", wall, shown)]
    for stage, rate in best.items():
        bound = {"limit": f"pinned {stage}", "limit_value": limits[stage]} if stage in limits else {}
        found.append(record.record(f"convert-{stage}", "GB/s", rate, shown, **bound))
    return found, []
