"""Measures the steps of a conversion by many processes, and records the result in
bench/results: plan of many files, finalize of many chunks, all three steps against
convert, partitions in several processes at once, and writing to an object store whose
responses are late.

Usage: scale_cpu.py [--only TEXT] [--machine NAME] [--results FOLDER] [--scratch FOLDER]
                    [--slowstore PROGRAM]

The limit of plan and finalize is the goal of 60 s, that of n processes is n times the
rate of one, and that of the object store is requests in flight * size / latency.
PROGRAM is bench/slowstore, for a machine without Go.
"""

import argparse
import contextlib
import math
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gen
import numpy as np
import pyarrow as pa
import record

ARROW2ZARR = record.ROOT / "bin" / "arrow2zarr"
PARTITIONS = 100
ROWS_PER_FILE = 100_000
PROCESSES, PROCESS_PARTITIONS, INPUT_GIB = (1, 2, 4), 32, 4
PIECE = 1 << 19
LATENCY, IN_FLIGHT, OBJECT = 0.05, 64, 64 << 10


def run(*command, environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Returns the seconds and the MiB that a command takes."""
    start = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, env=os.environ | (environment or {}))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def plan(scratch: Path, files: int) -> list[dict]:
    """Plans a folder of files, which are copies of one."""
    folder, output = scratch / "files", scratch / "planned.zarr"
    folder.mkdir()
    table = pa.table({"id": pa.array(np.arange(ROWS_PER_FILE) % 7), "value": pa.array(np.zeros(ROWS_PER_FILE, np.float32))})
    with pa.ipc.new_file(folder / "0.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    for i in range(1, files):
        shutil.copyfile(folder / "0.arrow", folder / f"{i}.arrow")
    seconds, mib = run(ARROW2ZARR, "plan", folder, output, "--partitions", PARTITIONS)
    run(ARROW2ZARR, "abort", output)
    shutil.rmtree(folder)
    note = f"{files} IPC files of {ROWS_PER_FILE} rows, {PARTITIONS} partitions; {mib:.0f} MiB of memory, of 512"
    return [record.record(f"plan-{files}-files", "s", seconds, "arrow2zarr plan", limit="goal", limit_value=60, note=note)]


def finalize(scratch: Path, chunks: int) -> list[dict]:
    """Finalizes a table with a number of chunks: ten flat columns, and a list in pieces."""
    source, output = scratch / "rows.arrow", scratch / "finalized.zarr"
    rows = chunks // 10
    columns = {f"c{i}": pa.array((np.arange(rows) % 100).astype(np.int8)) for i in range(10)}
    columns["list"] = pa.array([[i % 5] * (i % 3) for i in range(rows)], pa.list_(pa.int8()))
    table = pa.table(columns)
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    run(ARROW2ZARR, "plan", source, output, "--partitions", PARTITIONS, "--chunk-rows", 1, "--codec", "none")
    run(ARROW2ZARR, "partition", output, *range(PARTITIONS))
    seconds, mib = run(ARROW2ZARR, "finalize", output)
    run(ARROW2ZARR, "verify", source, output)
    shutil.rmtree(output)
    source.unlink()
    note = f"{PARTITIONS} partitions, ten flat columns and a list, {mib:.0f} MiB of memory; verified"
    return [record.record(f"finalize-{chunks}-chunks", "s", seconds, "arrow2zarr finalize", limit="goal", limit_value=60, note=note)]


def processes(scratch: Path) -> list[dict]:
    """Writes the same partitions in 1, 2 and 4 processes at once, each with 2 cores of
    its own, and then with 4, as schedulers give them. All encode on the CPU: on a machine
    with a GPU they would share it, and each would initialize CUDA. The counts take turns.
    What libzstd alone keeps of linear says how far the machine itself scales."""
    source = scratch / "stations.arrow"
    batches = list(gen.batches())
    with pa.ipc.new_file(source, gen.SCHEMA) as writer:
        for batch in batches * INPUT_GIB:
            writer.write_batch(batch)
    del batches
    records = [r for cores in (2, 4) for r in processes_of(cores, source, scratch / "partitions.zarr")]
    source.unlink()
    return records


def processes_of(cores: int, source: Path, output: Path) -> list[dict]:
    best: dict[int, tuple[float, float, float]] = {}
    libzstd: dict[int, float] = {}
    for n in PROCESSES * 3:
        run(ARROW2ZARR, "plan", source, output, "--partitions", PROCESS_PARTITIONS, "--chunk-rows", 1 << 16)
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with contextlib.ExitStack() as stack:
            for i in range(n):
                numbers = map(str, range(i, PROCESS_PARTITIONS, n))
                command = ["taskset", "--cpu-list", f"{i * cores}-{(i + 1) * cores - 1}", ARROW2ZARR, "partition", output, *numbers, "--device", "cpu"]
                process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
                stack.callback(process.wait)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = (seconds, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
        best[n] = min(best.get(n, taken), taken)
        run(ARROW2ZARR, "finalize", output)
        shutil.rmtree(output)
        libzstd[n] = min(libzstd.get(n, math.inf), compress_alone(source, n, cores))
    size = source.stat().st_size / 1e9
    alone, records = size / best[1][0], []
    for n, (seconds, user, system) in best.items():
        note = (
            f"{INPUT_GIB} GiB of bench/gen.py as IPC, zstd 1, {PROCESS_PARTITIONS} partitions, {cores} cores for each process, on a RAM disk; the best of 3, "
            f"with {user:.1f} s of CPU and {system:.1f} s of the kernel; libzstd alone keeps {libzstd[1] / libzstd[n] / n:.3f} of linear"
        )
        records.append(record.record(f"scale-processes-{n}-of-{cores}-cores", "GB/s", size / seconds, "arrow2zarr partition --device cpu",
                                     limit="n times one process", limit_value=n * alone, note=note))  # fmt: skip
    return records


def compress_alone(source: Path, n: int, cores: int) -> float:
    """Returns the seconds in which n processes compress the file in memory, each with some
    cores of its own."""
    ready, go = multiprocessing.Barrier(n + 1), multiprocessing.Barrier(n + 1)

    def work(i: int) -> None:
        os.sched_setaffinity(0, range(i * cores, (i + 1) * cores))
        codec, data = pa.Codec("zstd", compression_level=1), pa.memory_map(str(source)).read_buffer()
        pieces = range(i * PIECE, data.size, n * PIECE)
        with ThreadPoolExecutor(cores) as pool:
            ready.wait()
            go.wait()
            for _ in pool.map(lambda at: codec.compress(data.slice(at, min(PIECE, data.size - at))), pieces):
                pass

    workers = [multiprocessing.get_context("fork").Process(target=work, args=(i,)) for i in range(n)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    go.wait()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def steps(scratch: Path) -> list[dict]:
    """Converts by the three steps with one partition, and by convert, in turns."""
    gen.main(scratch)
    source, output = scratch / "stations.arrow", scratch / "steps.zarr"
    seconds: dict[str, list[float]] = {"convert": [], "steps": []}
    for _ in range(7):
        seconds["convert"].append(run(ARROW2ZARR, "convert", source, output, "--device", "cpu")[0])
        shutil.rmtree(output)
        seconds["steps"].append(sum(run(ARROW2ZARR, *command)[0] for command in (
            ("plan", source, output, "--partitions", 1),
            ("partition", output, 0, "--device", "cpu"),
            ("finalize", output),
        )))  # fmt: skip
        shutil.rmtree(output)
    for file in scratch.glob("stations.*"):
        file.unlink()
    convert, by_steps = (statistics.median(seconds[way]) for way in ("convert", "steps"))
    note = "1 GiB of bench/gen.py as IPC, zstd 1, on a RAM disk; medians of 7"
    return [record.record("scale-steps", "s", by_steps, "arrow2zarr plan, partition, finalize", peer="arrow2zarr convert", peer_value=convert, note=note)]


def slow_store(scratch: Path, server: Path | None) -> list[dict]:
    """Writes to a store whose responses are late."""
    source = scratch / "rows.arrow"
    if server is None:
        server = scratch / "slowstore"
        subprocess.run([os.environ.get("GO", "go"), "build", "-o", server, "./bench/slowstore"], cwd=record.ROOT, check=True)
    rows = 1 << 27
    table = pa.table({"value": pa.array(np.arange(rows))})
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 20)
    with subprocess.Popen([server, f"-latency={LATENCY}s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        endpoint = process.stdout.readline().strip()
        url = f"s3://tests/table.zarr?region=us-east-1&use_path_style=true&disable_https=true&endpoint={endpoint}"
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
        seconds, _ = run(ARROW2ZARR, "convert", source, url, "--quiet", "--codec", "none", "--chunk-rows", OBJECT // 8, "--store-concurrency", IN_FLIGHT,
                         environment=keys)
        process.stdin.close()
    source.unlink()
    rate, limit = rows * 8 / seconds / 1e9, IN_FLIGHT * OBJECT / LATENCY / 1e9
    note = f"{rows * 8 // OBJECT} objects of {OBJECT >> 10} KiB, {IN_FLIGHT} requests in flight, responses after {LATENCY * 1e3:.0f} ms; the whole process"
    return [record.record("store-latency", "GB/s", rate, "arrow2zarr convert", limit="in flight * size / latency", limit_value=limit, note=note)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core")
    parser.add_argument("--slowstore", type=Path)
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench" / "results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm/quiver-scale"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.scratch, ignore_errors=True)
    arguments.scratch.mkdir(parents=True)
    records = []
    for name, measure in {
        "plan-1000": lambda: plan(arguments.scratch, 1_000),
        "plan-10000": lambda: plan(arguments.scratch, 10_000),
        "finalize-100000": lambda: finalize(arguments.scratch, 100_000),
        "finalize-1000000": lambda: finalize(arguments.scratch, 1_000_000),
        "scale-steps": lambda: steps(arguments.scratch),
        "scale-processes": lambda: processes(arguments.scratch),
        "store-latency": lambda: slow_store(arguments.scratch, arguments.slowstore),
    }.items():
        # Four processes need sixteen cores of their own.
        if name == "scale-processes" and len(os.sched_getaffinity(0)) < 16:
            print(f"{name} is not measured on fewer than 16 cores", flush=True)
        elif arguments.only in name:
            for r in measure():
                print(r, flush=True)
                records.append(r)
    shutil.rmtree(arguments.scratch)
    machine = record.machine({"pyarrow": pa.__version__}, name=arguments.machine)
    print(record.write(arguments.results, "scale", machine, records))


if __name__ == "__main__":
    main()
