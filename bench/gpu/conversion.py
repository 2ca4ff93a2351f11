"""The topic convert: `arrow2zarr convert --device cuda`, from memory to memory, beside the
same on all cores and tensorstore, and the stages of one. Figures are GB/s of the arrays.
The limit of a conversion is the processors' part of it: all cores read the same input and
store as many bytes, without a GPU. The limit of a copy stage is the rate of pinned memory.
An output of each codec is verified.

tensorstore is measured if its wheel is there (bench/gpu/wheels.sh). It writes the same
columns from the same mapped file, but no masks, metadata or row numbers."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cupy_limits
import gobench
import numpy as np
import pyarrow as pa

import gen
import record

ROUNDS = 8  # a round varies by half
PEER_ROUNDS = 4  # of the programs of others, which take ten times as long
TIMES = 8  # the input of the conversion, in GiB
CODECS = {"zstd": "zstd:1", "lz4": "lz4", "blosc": "blosc:zstd:1", "none": "none"}
STAGES = "zstd"  # the codec whose stages are recorded
PEER_CODECS = {"zstd": "zstd1", "none": "none"}  # as bench/peers.py names them


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


def verify(source: Path, output: Path) -> None:
    command = [str(gobench.GPU / "arrow2zarr"), "verify", str(source), str(output)]
    run = subprocess.run(command, capture_output=True, text=True)
    print(run.stdout, run.stderr)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}\n{run.stderr}")


def tensorstore(source: Path, output: Path, codec: str, chunk_rows: int) -> float:
    """The seconds of the peer."""
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, str(record.ROOT / "bench/peers.py"), "tensorstore-by-batch", str(source), str(output), codec, str(chunk_rows)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"tensorstore: {run.stderr.strip().splitlines()[-1:]}")
    return float(run.stdout)


READ = 4 << 20  # bytes of a read


def copies_alone(source: Path, output: Path) -> float:
    """The seconds in which all cores read the source and write files of the sizes of an
    output, which it replaces."""
    sizes = [path.stat().st_size for path in output.rglob("*") if path.is_file()]
    shutil.rmtree(output)
    output.mkdir()
    length = source.stat().st_size
    tasks = [(offset / length, None, offset) for offset in range(0, length, READ)]
    tasks += [(i / len(sizes), output / str(i), size) for i, size in enumerate(sizes)]
    tasks.sort(key=lambda task: task[0])  # as in a conversion, both go on at the same time
    encoded = bytes(max(sizes))
    memory = threading.local()
    file = os.open(source, os.O_RDONLY)

    def copy(task: tuple[float, Path | None, int]) -> None:
        _, path, n = task
        if path:
            path.write_bytes(memoryview(encoded)[:n])
            return
        if not hasattr(memory, "buffer"):
            memory.buffer = bytearray(READ)
        os.preadv(file, [memory.buffer], n)

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        start = time.perf_counter()
        list(pool.map(copy, tasks))
        seconds = time.perf_counter() - start
    os.close(file)
    return seconds


def column_bytes(source: Path) -> int:
    """The size of the arrays that tensorstore writes."""
    with pa.ipc.open_file(pa.memory_map(str(source))) as file:
        rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
        return rows * sum(max(f.type.bit_width // 8, 1) for f in file.schema)


def records() -> tuple[list[dict], list[str]]:
    """The rates of conversions. Both devices take turns, and the best of each counts: the
    first rounds pin memory and touch pages."""
    folder = Path(tempfile.mkdtemp(prefix="quiver-", dir="/dev/shm"))
    found, faults, cores = [], [], len(os.sched_getaffinity(0))
    limits = {"h2d": cupy_limits.bus_copy(True), "d2h": cupy_limits.bus_copy(False)}
    cupy_limits.free()
    try:
        gen.main(folder)
        # Verifying takes longer than converting: one repetition has all kinds of columns.
        short, source, output = lengthen(folder / "stations.arrow", 1), lengthen(folder / "stations.arrow", TIMES), folder / "out.zarr"
        for name, codec in CODECS.items():
            best, stages, ratio = {"cuda": 0.0, "cpu": 0.0}, {}, {}
            flags = ["--codec", codec, "--max-memory", "4GiB", "--json", "--no-progress"]
            convert(short, output, ["--device", "cuda", *flags])
            verify(short, output)
            for _ in range(ROUNDS):
                for device in best:
                    summary = convert(source, output, ["--device", device, *flags])
                    best[device] = max(best[device], summary["bytes_per_second"] / 1e9)
                    ratio[device] = round(summary["raw_bytes"] / summary["stored_bytes"], 3)
                    if device == "cuda":
                        for stage in summary["stages"]:
                            stages[stage["name"]] = max(stages.get(stage["name"], 0), stage["bytes_per_second"] / 1e9)
            others = {}
            if name != "none":  # the file that is stored is not read first
                convert(source, output, ["--device", "cuda", *flags])
                seconds = [copies_alone(source, output) for _ in range(ROUNDS)]
                others |= {"limit": f"reading and storing alone, {cores} cores", "limit_value": summary["raw_bytes"] / min(seconds) / 1e9}
            if peer_codec := PEER_CODECS.get(name):
                try:
                    seconds = min(tensorstore(source, output, peer_codec, summary["chunk_rows"]) for _ in range(PEER_ROUNDS))
                    rate = column_bytes(source) / seconds / 1e9
                    others |= {"peers": {f"tensorstore, {cores} cores": round(rate, 4)}, "peer_ratios": {"tensorstore": round(best["cuda"] / rate, 3)}}
                except RuntimeError as e:
                    faults.append(f"convert-gpu-{name}: {e}")
            shown = f"arrow2zarr convert {source.name} OUT --device cuda {' '.join(flags)}"
            found.append(record.record(f"convert-gpu-{name}", "GB/s", best["cuda"], shown, peer=f"--device cpu, {cores} cores", peer_value=best["cpu"],
                                       compression=ratio["cuda"], peer_compression=ratio["cpu"], **others))  # fmt: skip
            if name == STAGES:
                for stage, rate in stages.items():
                    if stage == "read":  # the file is mapped: h2d reads it
                        continue
                    bound = {"limit": f"pinned {stage}", "limit_value": limits[stage]} if stage in limits else {}
                    found.append(record.record(f"convert-gpu-{name}-{stage}", "GB/s", rate, shown, **bound))
    finally:
        shutil.rmtree(folder)
    return found, faults
