"""The topics decode and encode: batches of 512 MiB that lie on the GPU, in chunks of 64
KiB, 1 MiB and 16 MiB. decode decodes Zstandard frames of libzstd at level 1 and LZ4 blocks
of liblz4, and ("-own") those that compress encodes on the GPU; figures are GB/s of the
output. encode encodes the same data as such frames and blocks; figures are GB/s of the
input, and "ratio-" the compression ratios.

The data are the columns of bench/gen.py and a smooth float32 field, as they are and
("-shuffled") with the bytes of each chunk shuffled. The peers are nvCOMP on the GPU, if
its wheel is there (bench/gpu/wheels.sh), and libzstd or liblz4 in a thread per core,
through pyarrow and into fresh memory. Ratios are compared with those of libzstd at level 1
or liblz4. The limit is a copy of the output, or of the input, on the device.
"""

import ctypes
import os
import shutil
import site
import statistics
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


def data_sets(arrays, size):
    for name, values_of in arrays.items():
        chunks = [(values[i : i + size], width) for values, width in values_of for i in range(0, values.size, size)]
        yield name, [chunk for chunk, _ in chunks]
        yield f"{name}-shuffled", list(POOL.map(lambda c: shuffled(*c), chunks))


def codec(format, level=None):
    name, usual, _ = FORMATS.get(format, (format, None, ""))
    return pa.Codec(name, level or usual) if usual else pa.Codec(name)


def encode(format, chunks, level=None):
    """Encodes on all cores, each with a codec of its own."""

    def part(first):
        own = codec(format, level)
        return [own.compress(pa.py_buffer(c)) for c in chunks[first::threads]]

    threads = os.cpu_count()
    encoded = [None] * len(chunks)
    for first, some in enumerate(POOL.map(part, range(threads))):
        encoded[first::threads] = some
    return encoded


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


SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p


class Nvcomp:
    """Batches by nvCOMP 6, which reads them from arrays of device pointers."""

    NAMES = {"zstd": "Zstd", "lz4": "LZ4"}

    def __init__(self):
        roots = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(":")]
        found = [p for root in roots if root for p in Path(root).glob("nvidia/libnvcomp/lib64/libnvcomp.so.6")]
        if not found:
            raise FileNotFoundError("libnvcomp.so.6 is missing: bench/gpu/wheels.sh")
        self.lib = ctypes.CDLL(str(found[0]))

    def place(self, buffers):
        """Returns device memory with the buffers, their places in it and their sizes."""
        sizes = np.array([len(b) for b in buffers], np.int64)
        starts = np.concatenate([[0], np.cumsum((sizes + 15) // 16 * 16)])
        host = np.zeros(max(starts[-1], 1), np.uint8)
        for b, at in zip(buffers, starts, strict=False):
            host[at : at + len(b)] = np.frombuffer(b, np.uint8)
        return cp.asarray(host), starts[:-1], sizes

    def call(self, function, *arguments):
        if code := getattr(self.lib, f"nvcompBatched{function}")(*arguments):
            raise RuntimeError(f"nvCOMP: {function}: status {code}")

    def median(self, run):
        """Returns the median of the seconds of five runs after a first one, or of fewer that
        take long."""
        seconds = []
        while len(seconds) < 6 and not (len(seconds) > 2 and sum(seconds) > 2):
            start = time.perf_counter()
            run()
            cp.cuda.Stream.null.synchronize()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds[1:])

    def rate(self, format, encoded, chunks):
        """Returns GB/s of decoding."""
        name, n, total = self.NAMES[format], len(chunks), sum(map(len, chunks))
        src, starts, sizes = self.place(encoded)
        dst, places, lengths = self.place([bytes(len(c)) for c in chunks])
        inputs, outputs = cp.asarray(starts + src.data.ptr), cp.asarray(places + dst.data.ptr)
        in_sizes, out_sizes = cp.asarray(sizes), cp.asarray(lengths)
        actual, status, temp = cp.zeros(n, cp.int64), cp.zeros(n, cp.int32), ctypes.c_size_t()
        self.call(f"{name}DecompressGetTempSize", SIZE(n), SIZE(int(lengths.max())), Options(), ctypes.byref(temp), SIZE(total), POINTER())
        scratch = cp.zeros(max(temp.value, 1), cp.uint8)

        def run():
            self.call(
                f"{name}DecompressAsync", POINTER(inputs.data.ptr), POINTER(in_sizes.data.ptr), POINTER(out_sizes.data.ptr),
                POINTER(actual.data.ptr), SIZE(n), POINTER(scratch.data.ptr), SIZE(temp.value), POINTER(outputs.data.ptr),
                Options(), POINTER(status.data.ptr), POINTER())  # fmt: skip

        seconds = self.median(run)
        if not (status == 0).all() or not bool((dst == self.place(chunks)[0]).all()):
            raise RuntimeError("nvCOMP decoded wrong bytes")
        return total / seconds / 1e9

    def encode_rate(self, format, chunks):
        """Returns GB/s of encoding, and the compression ratio."""
        name, n, total = self.NAMES[format], len(chunks), sum(map(len, chunks))
        src, starts, sizes = self.place(chunks)
        largest, temp, most = int(sizes.max()), ctypes.c_size_t(), ctypes.c_size_t()
        self.call(f"{name}CompressGetTempSize", SIZE(n), SIZE(largest), Options(), ctypes.byref(temp), SIZE(total), POINTER())
        self.call(f"{name}CompressGetMaxOutputChunkSize", SIZE(largest), Options(), ctypes.byref(most))
        each = (most.value + 15) // 16 * 16
        dst, scratch = cp.zeros(n * each, cp.uint8), cp.zeros(max(temp.value, 1), cp.uint8)
        inputs, in_sizes = cp.asarray(starts + src.data.ptr), cp.asarray(sizes)
        outputs = cp.asarray(np.arange(n, dtype=np.int64) * each + dst.data.ptr)
        out_sizes, status = cp.zeros(n, cp.int64), cp.zeros(n, cp.int32)

        def run():
            self.call(
                f"{name}CompressAsync", POINTER(inputs.data.ptr), POINTER(in_sizes.data.ptr), SIZE(largest), SIZE(n),
                POINTER(scratch.data.ptr), SIZE(temp.value), POINTER(outputs.data.ptr), POINTER(out_sizes.data.ptr),
                Options(), POINTER(status.data.ptr), POINTER())  # fmt: skip

        seconds = self.median(run)
        if not (status == 0).all():
            raise RuntimeError("nvCOMP did not encode")
        return total / seconds / 1e9, total / int(out_sizes.sum())


def write_batch(path, encoded, chunks):
    head = [len(chunks)] + [n for pair in zip(map(len, encoded), map(len, chunks), strict=True) for n in pair]
    with path.open("wb") as f:
        f.write(np.array(head, "<i8").tobytes())
        for e in encoded:
            f.write(e)


def open_nvcomp(faults):
    try:
        return Nvcomp()
    except OSError as e:
        faults.append(str(e))


def host_encode(format, chunks, level=None):
    """Returns the encoded chunks, GB/s of encoding them on all cores, and the ratio."""
    total, seconds = sum(map(len, chunks)), []
    for _ in range(2):  # the first one meets cold caches
        start = time.perf_counter()
        encoded = encode(format, chunks, level)
        seconds.append(time.perf_counter() - start)
    return encoded, total / min(seconds) / 1e9, total / sum(map(len, encoded))


def measure(benchmarks, peers_of, made_of, rounds=3):
    """Runs the benchmarks of each format with all data. peers_of(format, encoded, chunks)
    returns figures of peers in a dict, and made_of(format, benchmark, name of the data, our
    figures, peers, command) the records."""
    made, faults = [], []
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        arrays = {"columns": columns(), "field": field()}
        for size_name, size in CHUNKS.items():
            peers = {}
            for data, chunks in data_sets(arrays, size):
                name = f"{data}-{size_name}"
                for format in FORMATS:
                    encoded, rate, ratio = host_encode(format, chunks)
                    write_batch(folder / f"{name}.{format}", encoded, chunks)
                    peers[format, name] = {"ratio": ratio, "encoding": rate} | peers_of(format, encoded, chunks)
                    cupy_limits.free()
                with (folder / f"{name}.raw").open("wb") as f:
                    for c in chunks:
                        f.write(c)
            os.environ["QUIVER_BENCH_BATCHES"] = str(folder)
            for format, benchmark in benchmarks:
                ours = gobench.run(f"compress/{format}", f"^Benchmark{benchmark}$", f"-test.benchtime={15 // rounds}x", rounds=rounds)
                for (f, name), peer in peers.items():
                    if f != format:
                        continue
                    command = f"go test ./compress/{format} -bench '{benchmark}$/cuda$/{name}$'"
                    if got := ours.get(f"{benchmark}/cuda/{name}"):
                        made += made_of(format, benchmark, name, got, peer, command)
                    else:
                        faults.append(f"{format}-{benchmark}-{name}: its benchmark gave no figure for the GPU, see the log")
            for file in folder.iterdir():
                file.unlink()
    finally:
        shutil.rmtree(folder)
    return made, faults


def copy_limit(what):
    return {"limit": f"a copy of the {what} on the device", "limit_value": cupy_limits.device_copy() / 2}


def decode_records():
    faults = []
    nvcomp, limit = open_nvcomp(faults), copy_limit("output")

    def peers_of(format, encoded, chunks):
        peers = {"host": host_rate(format, encoded, chunks)}
        return peers | {"nvcomp": nvcomp.rate(format, encoded, chunks)} if nvcomp else peers

    def made_of(format, benchmark, name, got, peer, command):
        if benchmark == "DecodeOwn":
            return [record.record(f"{format}-decode-own-{name}", "GB/s", got["MB/s"] / 1e3, command, **limit)]
        library = FORMATS[format][2]
        how, rate = ("nvCOMP 6", peer["nvcomp"]) if nvcomp else (f"{library} of pyarrow on all cores", peer["host"])
        note = f"compression ratio {peer['ratio']:.2f}; {library} of pyarrow on all cores: {peer['host']:.1f} GB/s"
        return [record.record(f"{format}-decode-{name}", "GB/s", got["MB/s"] / 1e3, command, peer=how, peer_value=rate, note=note, **limit)]

    made, others = measure([(f, b) for f in FORMATS for b in ("Decode", "DecodeOwn")], peers_of, made_of, rounds=1)
    made.append(short_sequences())
    return made, faults + others


def short_sequences():
    """The rate of a block that the kernels read in order: hostile inputs bound them."""
    got = gobench.run("compress/lz4", "^BenchmarkDecodeShortSequences$", "-test.benchtime=2x", rounds=1)
    command = "go test ./compress/lz4 -bench 'DecodeShortSequences$/cuda$'"
    return record.record("lz4-decode-short-sequences", "GB/s", got["DecodeShortSequences/cuda"]["MB/s"] / 1e3, command)


def encode_records():
    faults = []
    nvcomp, limit = open_nvcomp(faults), copy_limit("input")

    def peers_of(format, encoded, chunks):
        peers = {"nvcomp": nvcomp.encode_rate(format, chunks)} if nvcomp else {}
        return peers | {"level 3": host_encode(format, chunks, 3)[1:]} if format == "zstd" else peers

    def made_of(format, benchmark, name, got, peer, command):
        rate, ratio, library, level = peer["encoding"], peer["ratio"], FORMATS[format][2], ""
        if format == "zstd":
            library += " level 1"
        if benchmark == "EncodeLevel3":
            (rate, ratio), library, level = peer["level 3"], "libzstd level 3", "level3-"
        how, peer_rate = ("nvCOMP 6", peer["nvcomp"][0]) if nvcomp else (f"{library} of pyarrow on all cores", rate)
        note = f"{library} of pyarrow on all cores: {rate:.1f} GB/s"
        ratios = f"the ratio of nvCOMP 6 is {peer['nvcomp'][1]:.3f}" if nvcomp else ""
        return [
            record.record(f"{format}-encode-{level}{name}", "GB/s", got["MB/s"] / 1e3, command, peer=how, peer_value=peer_rate, note=note, **limit),
            record.record(f"{format}-ratio-{level}{name}", "input/output", got["ratio"], command, peer=library, peer_value=ratio, note=ratios),
        ]

    made, others = measure([("zstd", "Encode"), ("zstd", "EncodeLevel3"), ("lz4", "Encode")], peers_of, made_of, rounds=1)
    return made, faults + others
