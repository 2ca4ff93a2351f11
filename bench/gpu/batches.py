"""The topics shuffle and blosc. In the first, batches that lie on the GPU are shuffled, their
CRC-32C sums computed and their ranges packed. In the second, Blosc is encoded and decoded,
and gzip decoded. Figures are GB/s of the input of
shuffles, sums and copies, and of decoded bytes otherwise, and include the calls' work on
the host.

Shuffles, sums and copies are of 2 GiB in ranges of 1 MiB unless the name says otherwise.
Blosc chunks are of a smooth float32 field, level 5 with byte shuffle; their peer is this
package on all cores. gzip streams are of the data of the topic decode, made by zlib at level 1; their
peer is zlib in a thread per core, through pyarrow. The limits are a copy of the same bytes
on the device, and for sums the rate at which CuPy sums integers.
"""

import os
import shutil
import tempfile
import zlib
from pathlib import Path

import cupy as cp

import compression
import cupy_limits
import gobench
from gobench import record

COPY = "a copy of the same bytes on the device"
GZIP_CHUNKS = ("64k", "1m")


def reading() -> float:
    """The rate at which the GPU reads 2 GiB, in GB/s."""
    values = cp.ones(1 << 28, cp.uint64)
    rate = values.nbytes / cupy_limits.seconds(lambda: values.sum()) / 1e9
    del values
    cupy_limits.free()
    return rate


def transpose(size: int, back: bool) -> float:
    """The rate at which CuPy transposes the bytes of elements in pieces of 1 MiB."""
    n = (1 << 20) // size
    data = cp.zeros((2048, size, n) if back else (2048, n, size), cp.uint8)
    rate = data.nbytes / cupy_limits.seconds(lambda: data.transpose(0, 2, 1).copy(), 5) / 1e9
    del data
    cupy_limits.free()
    return rate


class Maker:
    """Makes records of Go benchmarks, and collects what is missing."""

    def __init__(self):
        self.made, self.faults = [], []

    def add(self, package, ours, benchmark, name, **more):
        if not (got := ours.get(benchmark)):
            self.faults.append(f"{name}: its benchmark gave no figure for the GPU, see the log")
            return
        command = f"go test ./compress/{package} -bench '{benchmark}$'"
        if "ratio" in got:
            more["note"] = f"compression ratio {got['ratio']:.2f}"
        self.made.append(record.record(name, "GB/s", got["MB/s"] / 1e3, command, **more))


def measure_blosc(maker, copy):
    ours = gobench.run("compress/blosc", "^BenchmarkBatch$", "-test.benchtime=3x", rounds=3)
    os.environ["QUIVER_TEST_DEVICE"] = "cpu"
    try:
        host = gobench.run("compress/blosc", "^BenchmarkBatch$", "-test.benchtime=3x", rounds=1)
    finally:
        del os.environ["QUIVER_TEST_DEVICE"]
    for codec in ("lz4", "zstd"):
        for size, bytes_ in compression.CHUNKS.items():
            for step in ("encode", "decode"):
                case = f"{step}-{codec}-{bytes_}"
                peer = host[f"Batch/cpu/{case}"]["MB/s"] / 1e3
                maker.add("blosc", ours, f"Batch/cuda/{case}", f"blosc-{codec}-{step}-{size}", limit=COPY, limit_value=copy, peer="compress/blosc on all cores", peer_value=peer)


def measure_gzip(maker, copy):
    peers = {}
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        arrays = {"columns": compression.columns(), "field": compression.field()}
        for size in GZIP_CHUNKS:
            for data, chunks in compression.data_sets(arrays, compression.CHUNKS[size]):
                if data.endswith("-shuffled"):
                    continue
                name = f"{data}-{size}"
                encoded = list(compression.POOL.map(lambda c: zlib.compress(c, 1, 31), chunks))
                compression.write_batch(folder / f"{name}.gzip", encoded, chunks)
                with (folder / f"{name}.raw").open("wb") as f:
                    f.writelines(chunks)
                peers[name] = (compression.host_rate("gzip", encoded, chunks), sum(map(len, chunks)) / sum(map(len, encoded)))
        os.environ["QUIVER_BENCH_BATCHES"] = str(folder)
        ours = gobench.run("compress/gzip", "^BenchmarkDecodeBatch$", "-test.benchtime=3x", rounds=3)
    finally:
        shutil.rmtree(folder)
        os.environ.pop("QUIVER_BENCH_BATCHES", None)
    for name, (peer, ratio) in peers.items():
        maker.add("gzip", ours, f"DecodeBatch/cuda/{name}", f"gzip-decode-{name}", limit=COPY, limit_value=copy, peer="zlib of pyarrow on all cores", peer_value=peer, note=f"compression ratio {ratio:.2f}")


def measure_sums(maker):
    read = reading()
    ours = gobench.run("compress/crc32c", "^BenchmarkSums$", "-test.benchtime=5x", rounds=3)
    for size, bytes_ in {"4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20, "16m": 16 << 20}.items():
        name = "crc32c" if size == "1m" else f"crc32c-{size}"
        maker.add("crc32c", ours, f"Sums/cuda/{bytes_}", name, limit="a sum of CuPy, which only reads", limit_value=read)


def shuffle_records():
    maker = Maker()
    copy = cupy_limits.device_copy() / 2
    ours = gobench.run("compress/shuffle", "^BenchmarkApply$/^cuda$/^(un-)?(bytes|bits)-(1|2|4|8|16)-", "-test.benchtime=5x", rounds=3)
    for kind in ("bytes", "un-bytes", "bits", "un-bits"):
        for size in (2, 4, 8, 16) if "bytes" in kind else (1, 2, 4, 8, 16):
            peer = {"peer": "a transposed copy of CuPy", "peer_value": transpose(size, kind == "un-bytes")} if "bytes" in kind and size < 16 else {}
            for gap in (0, 5):
                name = f"shuffle-{kind}-{size}" + ("-unaligned" if gap else "")
                maker.add("shuffle", ours, f"Apply/cuda/{kind}-{size}-gap-{gap}", name, limit=COPY, limit_value=copy, **peer)
    measure_sums(maker)
    ours = gobench.run("compress/pack", "^BenchmarkCopy$", "-test.benchtime=5x", rounds=3)
    for size, bytes_ in {"1000": 1000, "64k": 64 << 10, "16m": 16 << 20}.items():
        for shift in (0, 5):
            name = f"pack-{size}" + ("-unaligned" if shift else "")
            maker.add("pack", ours, f"Copy/cuda/{bytes_}-shift-{shift}", name, limit=COPY, limit_value=copy)
    return maker.made, maker.faults


def blosc_records():
    maker = Maker()
    copy = cupy_limits.device_copy() / 2
    measure_blosc(maker, copy)
    measure_gzip(maker, copy)
    return maker.made, maker.faults
