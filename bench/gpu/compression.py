"""The topic compress: Zstandard frames of libzstd at level 1 and LZ4 blocks of liblz4,
decoded in batches of 512 MiB that lie on the GPU, in chunks of 64 KiB, 1 MiB and 16 MiB.
Figures are GB/s of the output.

The data are the columns of bench/gen.py and a smooth float32 field, as they are and
("-shuffled") with the bytes of each chunk shuffled. The peers are nvCOMP on the GPU, if
its wheel is there (bench/gpu/wheels.sh), and libzstd or liblz4 in a thread per core, through pyarrow and into fresh
memory. The limit is
a copy of the output on the device.
"""

import ctypes
import os
import shutil
import site
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cupy as cp
import numpy as np
import pyarrow as pa

import cupy_limits
import gobench
from gobench import record

import gen

BYTES = 512 << 20
CHUNKS = {"64k": 64 << 10, "1m": 1 << 20, "16m": 16 << 20}
FORMATS = {"zstd": ("zstd", 1, "libzstd"), "lz4": ("lz4_raw", None, "liblz4")}
POOL = ThreadPoolExecutor(os.cpu_count())


def columns():
    """Returns arrays of bytes with the widths of their elements."""
    arrays, size = [], 0
    for batch in gen.batches():
        for column in batch.columns:
            values = np.frombuffer(column.buffers()[1], np.uint8)
            arrays.append((values, values.size // len(column)))
            size += values.size
        if size >= BYTES:
            return arrays


def field():
    rng = np.random.default_rng(5)
    width = 4096
    height = BYTES // 4 // width
    y = np.cumsum(rng.normal(size=height))[:, None] * 0.05
    x = np.cumsum(rng.normal(size=width))[None, :] * 0.05
    values = np.round(280 + y + x + rng.normal(size=(height, width)) * 0.02, 2).astype(np.float32)
    return [(values.reshape(-1).view(np.uint8), 4)]


def shuffled(chunk, width):
    return np.ascontiguousarray(chunk.reshape(-1, width).T).reshape(-1)


def data_sets(size):
    for name, arrays in (("columns", columns()), ("field", field())):
        chunks = [(values[i : i + size], width) for values, width in arrays for i in range(0, values.size, size)]
        yield name, [chunk for chunk, _ in chunks]
        yield f"{name}-shuffled", list(POOL.map(lambda c: shuffled(*c), chunks))


def codec(format):
    name, level, _ = FORMATS.get(format, (format, None, ""))
    return pa.Codec(name, level) if level else pa.Codec(name)


def encode(format, chunks):
    return list(POOL.map(lambda c: codec(format).compress(pa.py_buffer(c)), chunks))


def host_rate(format, encoded, chunks):
    """Returns GB/s of decoding on all cores, into fresh memory."""
    best = None
    for _ in range(3):
        start = time.perf_counter()
        list(POOL.map(lambda pair: codec(format).decompress(pair[0], len(pair[1])), zip(encoded, chunks, strict=True)))
        seconds = time.perf_counter() - start
        best = min(best or seconds, seconds)
    return sum(map(len, chunks)) / best / 1e9


class Options(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 64)]


class Nvcomp:
    """Batches by nvCOMP 6, which reads them from arrays of device pointers."""

    def __init__(self):
        roots = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(":")]
        found = [p for root in roots if root for p in Path(root).glob("nvidia/libnvcomp/lib64/libnvcomp.so.6")]
        if not found:
            raise FileNotFoundError("libnvcomp.so.6 is missing: bench/gpu/wheels.sh")
        self.lib = ctypes.CDLL(str(found[0]))

    def rate(self, format, encoded, chunks):
        name = {"zstd": "Zstd", "lz4": "LZ4"}[format]
        n = len(chunks)
        sizes = np.array([len(e) for e in encoded], np.int64)
        starts = np.concatenate([[0], np.cumsum((sizes + 15) // 16 * 16)])
        host = np.zeros(starts[-1], np.uint8)
        for e, at in zip(encoded, starts, strict=False):
            host[at : at + len(e)] = np.frombuffer(e, np.uint8)
        src, lengths = cp.asarray(host), np.array([len(c) for c in chunks], np.int64)
        places = np.concatenate([[0], np.cumsum(lengths)])
        dst = cp.zeros(int(places[-1]), cp.uint8)
        inputs, outputs = cp.asarray(starts[:-1] + src.data.ptr), cp.asarray(places[:-1] + dst.data.ptr)
        in_sizes, out_sizes = cp.asarray(sizes), cp.asarray(lengths)
        actual, status = cp.zeros(n, cp.int64), cp.zeros(n, cp.int32)
        temp, size, none = ctypes.c_size_t(), ctypes.c_size_t, ctypes.c_void_p()
        pointer = ctypes.c_void_p
        largest = int(lengths.max())
        if code := getattr(self.lib, f"nvcompBatched{name}DecompressGetTempSize")(
            size(n), size(largest), Options(), ctypes.byref(temp), size(int(places[-1])), none):  # fmt: skip
            raise RuntimeError(f"nvCOMP: status {code}")
        scratch = cp.zeros(max(temp.value, 1), cp.uint8)

        def run():
            if code := getattr(self.lib, f"nvcompBatched{name}DecompressAsync")(
                pointer(inputs.data.ptr), pointer(in_sizes.data.ptr), pointer(out_sizes.data.ptr), pointer(actual.data.ptr),
                size(n), pointer(scratch.data.ptr), size(temp.value), pointer(outputs.data.ptr), Options(),
                pointer(status.data.ptr), none):  # fmt: skip
                raise RuntimeError(f"nvCOMP: status {code}")
            cp.cuda.Stream.null.synchronize()

        run()
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        if not (status == 0).all() or not bool((dst == cp.asarray(np.concatenate(chunks))).all()):
            raise RuntimeError("nvCOMP decoded wrong bytes")
        return float(places[-1]) / sorted(seconds)[2] / 1e9


def write_batch(path, encoded, chunks):
    head = [len(chunks)] + [n for pair in zip(map(len, encoded), map(len, chunks), strict=True) for n in pair]
    with path.open("wb") as f:
        f.write(np.array(head, "<i8").tobytes())
        for e in encoded:
            f.write(e)


def records():
    made, faults, peers = [], [], {}
    limit = {"limit": "a copy of the output on the device", "limit_value": cupy_limits.device_copy() / 2}
    try:
        nvcomp = Nvcomp()
    except OSError as e:
        nvcomp = None
        faults.append(str(e))
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        for size_name, size in CHUNKS.items():
            for data, chunks in data_sets(size):
                for format in FORMATS:
                    name = f"{data}-{size_name}"
                    encoded = encode(format, chunks)
                    write_batch(folder / f"{name}.{format}", encoded, chunks)
                    ratio = sum(map(len, chunks)) / sum(map(len, encoded))
                    peers[format, name] = {"host": host_rate(format, encoded, chunks), "ratio": ratio}
                    if nvcomp:
                        peers[format, name]["nvcomp"] = nvcomp.rate(format, encoded, chunks)
                        cupy_limits.free()
                with (folder / f"{name}.raw").open("wb") as f:
                    for c in chunks:
                        f.write(c)
            os.environ["QUIVER_BENCH_BATCHES"] = str(folder)
            for format in FORMATS:
                ours = gobench.run(f"compress/{format}", "^BenchmarkDecode$", "-test.benchtime=5x", rounds=3)
                for (f, name), peer in peers.items():
                    if f != format or not name.endswith(f"-{size_name}"):
                        continue
                    if not (got := ours.get(f"Decode/cuda/{name}")):
                        faults.append(f"{format}-decode-{name}: its benchmark gave no figure for the GPU, see the log")
                        continue
                    command = f"go test ./compress/{format} -bench 'Decode$/cuda$/{name}$'"
                    how, rate = ("nvCOMP 6", peer["nvcomp"]) if "nvcomp" in peer else (f"{FORMATS[format][2]} of pyarrow on all cores", peer["host"])
                    note = f"compression ratio {peer['ratio']:.2f}; {FORMATS[format][2]} of pyarrow on all cores: {peer['host']:.1f} GB/s"
                    made.append(record.record(f"{format}-decode-{name}", "GB/s", got["MB/s"] / 1e3, command, peer=how, peer_value=rate, note=note, **limit))
            for file in folder.iterdir():
                file.unlink()
    finally:
        shutil.rmtree(folder)
    return made, faults
