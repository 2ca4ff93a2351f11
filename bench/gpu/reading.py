"""The topic read: Zarr arrays in the page cache, read to arrays on the GPU. Figures are GB/s
of the array. zarr-python writes them: 1 GiB of a smooth float32 field, without compression,
with Zstandard level 1 and with Blosc (the same after a shuffle), in chunks of 1 and 16 MiB
and in shards of 64 MiB with chunks of 1 MiB.

The peer is zarr-python with its GPU prototype, if its wheels are there
(bench/gpu/wheels.sh). The limit is a copy of the array from pinned memory to the GPU,
which an array without compression cannot exceed. `write-gpu` encodes an array of the GPU in
chunks that are boxes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cupy_limits
import gobench
import numpy as np
from gobench import record

ROWS, WIDTH = 1 << 16, 1 << 12
LAYOUTS = {"1m": ((64, WIDTH), None), "16m": ((1024, WIDTH), None), "shards": ((64, WIDTH), (4096, WIDTH))}


def field():
    rng = np.random.default_rng(5)
    y = np.cumsum(rng.normal(size=ROWS))[:, None] * 0.05
    x = np.cumsum(rng.normal(size=WIDTH))[None, :] * 0.05
    return np.round(280 + y + x + rng.normal(size=(ROWS, WIDTH)) * 0.02, 2).astype(np.float32)


def write(folder):
    import zarr

    values = field()
    blosc = zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=4)
    for codec, compressors in {"none": None, "zstd": zarr.codecs.ZstdCodec(level=1), "blosc": blosc}.items():
        for layout, (chunks, shards) in LAYOUTS.items():
            array = zarr.create_array(folder / f"{codec}-{layout}", shape=values.shape, dtype=values.dtype, chunks=chunks,
                                      shards=shards, compressors=compressors, filters=None)  # fmt: skip
            array[...] = values


def peer(folder):
    """Prints the rates of zarr-python; run in a process of its own."""
    import cupy
    import zarr

    zarr.config.enable_gpu()
    zarr.config.set({"threading.max_workers": os.cpu_count(), "async.concurrency": 64})
    rates = {}
    for path in sorted(folder.iterdir()):
        array = zarr.open_array(path, mode="r")
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            got = array[...]
            cupy.cuda.Device().synchronize()
            seconds.append(time.perf_counter() - start)
        assert isinstance(got, cupy.ndarray)
        rates[path.name] = got.nbytes / sorted(seconds)[1] / 1e9
        del got
    print(json.dumps(rates))


def records():
    made, faults = [], []
    limit = {"limit": "a copy from pinned memory", "limit_value": cupy_limits.bus_copy(to_device=True)}
    cupy_limits.free()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        write(folder)
        os.environ["QUIVER_BENCH_ARRAYS"] = str(folder)
        ours = gobench.run("zarr", "^BenchmarkReadToDevice$", "-test.benchtime=5x", rounds=3)
        run = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, text=True, timeout=240)
        print(run.stdout, run.stderr)
        beside = json.loads(run.stdout) if run.returncode == 0 else {}
        if not beside:
            faults.append(f"zarr-python: {run.stderr.strip().splitlines()[-1:]}")
        for name in sorted(p.name for p in folder.iterdir()):
            if not (got := ours.get(f"ReadToDevice/cuda/{name}")):
                faults.append(f"read-gpu-{name}: its benchmark gave no figure, see the log")
                continue
            options = {"peer": "zarr-python, GPU prototype", "peer_value": beside[name]} if name in beside else {}
            command = f"go test ./zarr -bench 'ReadToDevice$/cuda$/{name}$'"
            made.append(record.record(f"read-gpu-{name}", "GB/s", got["MB/s"] / 1e3, command, **limit, **options))
        written = gobench.run("zarr", "^BenchmarkWriteFromDevice$", "-test.benchtime=5x", rounds=3)
        for size in ("64k", "1m"):
            if not (got := written.get(f"WriteFromDevice/cuda/{size}")):
                faults.append(f"write-gpu-{size}: its benchmark gave no figure, see the log")
                continue
            command = f"go test ./zarr -bench 'WriteFromDevice$/cuda$/{size}$'"
            made.append(record.record(f"write-gpu-{size}", "GB/s", got["MB/s"] / 1e3, command, note="boxes of a float32 array, shuffled and zstd level 1; stored nowhere"))
    finally:
        shutil.rmtree(folder)
    return made, faults


if __name__ == "__main__":
    peer(Path(sys.argv[1]))
