"""The topic convert: `arrow2zarr convert --device cuda`, from memory to memory, beside the
same on all cores, and the stages of one. Figures are GB/s of the arrays. The limit of a
copy stage is the rate of pinned memory."""

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

ROUNDS = 3
TIMES = 8  # the input of the conversion, in GiB
CODECS = {"zstd": "zstd:1", "lz4": "lz4", "blosc": "blosc:zstd:1", "none": "none"}
STAGES = "zstd"  # the codec whose stages are recorded


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


def convert(source: Path, output: Path, flags: list[str]) -> dict:
    shutil.rmtree(output, ignore_errors=True)
    command = [str(gobench.GPU / "arrow2zarr"), "convert", str(source), str(output), *flags]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}\n{run.stderr}")
    print(run.stdout)
    return json.loads(run.stdout)


def records() -> tuple[list[dict], list[str]]:
    """The rates of conversions. Both devices take turns, and the best of each counts: the
    first rounds pin memory and touch pages."""
    folder = Path(tempfile.mkdtemp(prefix="quiver-", dir="/dev/shm"))
    found, cores = [], len(os.sched_getaffinity(0))
    limits = {"h2d": cupy_limits.bus_copy(True), "d2h": cupy_limits.bus_copy(False)}
    cupy_limits.free()
    try:
        gen.main(folder)
        source = lengthen(folder / "stations.arrow", TIMES)
        for name, codec in CODECS.items():
            best, stages, ratio = {"cuda": 0.0, "cpu": 0.0}, {}, 1.0
            flags = ["--codec", codec, "--max-memory", "4GiB", "--json", "--no-progress"]
            for _ in range(ROUNDS):
                for device in best:
                    summary = convert(source, folder / "out.zarr", ["--device", device, *flags])
                    best[device] = max(best[device], summary["bytes_per_second"] / 1e9)
                    if device == "cuda":
                        ratio = summary["raw_bytes"] / summary["stored_bytes"]
                        for stage in summary["stages"]:
                            stages[stage["name"]] = max(stages.get(stage["name"], 0), stage["bytes_per_second"] / 1e9)
            shown = f"arrow2zarr convert {source.name} OUT --device cuda {' '.join(flags)}"
            found.append(record.record(f"convert-gpu-{name}", "GB/s", best["cuda"], shown, peer=f"--device cpu, {cores} cores",
                                       peer_value=best["cpu"], compression=round(ratio, 3)))  # fmt: skip
            if name == STAGES:
                for stage, rate in stages.items():
                    bound = {"limit": f"pinned {stage}", "limit_value": limits[stage]} if stage in limits else {}
                    found.append(record.record(f"convert-gpu-{name}-{stage}", "GB/s", rate, shown, **bound))
    finally:
        shutil.rmtree(folder)
    return found, []
