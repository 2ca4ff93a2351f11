"""Measures Quiver on a GPU beside CuPy and the limits of the hardware, in one
run, and writes result files.

Usage: measure.py --tests FILE --results FOLDER, run by run.sh. Writes the topics
kernels and convert.

bits-unpack: BenchmarkUnpackBits of package ndview, whose MB/s count the bytes
read plus written, against cupy.unpackbits, as a share of the device's own copy;
the package's other benchmarks are recorded beside it.
convert-h2d: the stage of that name of `arrow2zarr convert --device cuda`, as a
share of what pinned memory reaches; the other stages are recorded beside it.
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cupy_peers
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import gen  # noqa: E402
import record  # noqa: E402

GPU = record.ROOT / ".gpu"
ROUNDS = 5
TIMES = 24  # the input of the conversion, in GiB
# BenchmarkFillWhere/1in2/cuda/1024MiB-16   100   1000 ns/op   4000.00 MB/s
LINE = re.compile(r"^Benchmark(\S+)/cuda/\d+MiB(?:-\d+)?\s+\d+\s+[\d.]+ ns/op\s+([\d.]+) MB/s", re.MULTILINE)
NAMES = {"UnpackBits": "bits-unpack", "UnpackBitsShifted": "bits-unpack-shifted"}


def go_benchmarks(package: str) -> dict[str, float]:
    """GB/s of a package's benchmarks on the device, the median of their rounds,
    by name without device and size."""
    command = [str(GPU / "tests" / package.replace("/", "+")), "-test.run=^$", "-test.bench=.",
               "-test.benchtime=0.5s", f"-test.count={ROUNDS}"]  # fmt: skip
    environment = os.environ | {"QUIVER_TEST_DEVICE": "cuda"}
    run = subprocess.run(command, cwd=record.ROOT / package, env=environment, capture_output=True, text=True)
    print(run.stdout, run.stderr)
    if run.returncode != 0:
        raise RuntimeError(f"benchmarks of {package}: exit code {run.returncode}")
    rates: dict[str, list[float]] = {}
    for name, rate in LINE.findall(run.stdout):
        rates.setdefault(name, []).append(float(rate) / 1e3)
    return {name: statistics.median(r) for name, r in rates.items()}


def kernel_records(cupy: dict[str, float]) -> list[dict]:
    """The kernels of ndview as shares of a copy on the device; the bits against
    the better order of CuPy's."""
    rates = go_benchmarks("ndview")
    order = max(("big", "little"), key=lambda o: cupy[f"unpackbits_{o}"])
    found = []
    for name, rate in rates.items():
        peer = {}
        if name.startswith("UnpackBits"):
            peer = {"peer": f"cupy.unpackbits(bitorder={order!r})", "peer_value": cupy[f"unpackbits_{order}"],
                    "peer_in_arrow_order": round(cupy["unpackbits_little"], 1)}  # fmt: skip
        found.append(
            record.record(
                NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()),
                "GB/s", rate, f"go test ./ndview -bench {name.partition('/')[0]}$", **peer,
                limit="copy on the device", limit_value=cupy["device_copy"],
            )
        )  # fmt: skip
    if "bits-unpack" not in (r["name"] for r in found):
        raise RuntimeError(f"BenchmarkUnpackBits printed no MB/s on the device: {rates}")
    return found


def lengthen(path: Path, times: int) -> Path:
    """The same batches over and over, and two columns that need kernels: one of
    booleans, one with nulls."""
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


def convert_records(cupy: dict[str, float]) -> list[dict]:
    """The rates of the stages of a conversion, from memory to memory. The input
    is long enough for pinning memory to count as the start-up cost that it is."""
    folder = Path(tempfile.mkdtemp(prefix="quiver-", dir="/dev/shm"))
    try:
        gen.main(folder)
        source = lengthen(folder / "stations.arrow", TIMES)
        best: dict[str, float] = {}
        wall = 0.0
        # Half of the cores encode: the others read, and drive the device.
        jobs = str(max(1, len(os.sched_getaffinity(0)) // 2))
        flags = ["--device", "cuda", "--codec", "none", "--chunk-rows", str(gen.BATCH), "--jobs", jobs, "--json", "--no-progress"]
        for _ in range(ROUNDS):
            output = folder / "out.zarr"
            shutil.rmtree(output, ignore_errors=True)
            command = [str(GPU / "arrow2zarr"), "convert", str(source), str(output), *flags]
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
    limits = {"h2d": "pinned_h2d", "d2h": "pinned_d2h"}
    found = [record.record("convert-cuda", "GB/s", wall, shown)]
    for stage, rate in best.items():
        bound = {"limit": f"pinned {stage}", "limit_value": cupy[limits[stage]]} if stage in limits else {}
        found.append(record.record(f"convert-{stage}", "GB/s", rate, shown, **bound))
    return found


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in ("cupy-cuda13x", "cupy-cuda12x", "numpy", "pyarrow"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=Path, required=True, help="counts of the tests, as run.sh writes them")
    parser.add_argument("--results", type=Path, required=True)
    options = parser.parse_args()

    tests = {"passed": 0, "failed": 0, "skipped": 0}
    if options.tests.exists():
        tests = json.loads(options.tests.read_text())
    cupy = cupy_peers.measure()
    print(json.dumps(cupy, indent=2))
    commit = (GPU / "commit").read_text().strip()
    machine = record.machine("gpu", versions(), commit)
    machine["name"] = re.sub(r"[^a-z0-9]+", "-", machine["gpu"].lower().removeprefix("nvidia ")) or "gpu"
    faults = 0
    for topic, measure in {"kernels": kernel_records, "convert": convert_records}.items():
        try:
            records = measure(cupy)
        except Exception as e:  # the other topic is still worth its time on the machine
            print(f"{topic}: {e}", file=sys.stderr)
            faults += 1
            continue
        print(record.write(options.results, topic, machine, tests, records).read_text())
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
