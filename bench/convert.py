"""Compares `arrow2zarr convert` with pyarrow plus zarr-python or tensorstore, and
records the result in bench/results.

Usage: convert.py [--rounds 5] [--chunk-rows 1048576] [--machine NAME]
                  [--results FOLDER] [--scratch FOLDER]

Input and output are on a RAM disk, so no disk is measured. In each round, every program
converts every input with every codec, one after the other; the best round of each
counts. The time of arrow2zarr is that of the whole process. The time of a peer excludes
the start of Python and imports, and its fastest form (peers.py) counts. In the first
round, all outputs are compared with the input bitwise. In each round, limits.py
measures the most that the machine can do; records of IPC inputs name it as their limit.
"""

import argparse
import importlib.metadata
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorstore

import gen
import record

OURS = "arrow2zarr"
LIMIT = "limit"
LIMITS = {"none": "writing the same files from memory", "zstd1": "libzstd alone, on all cores"}
PEERS = {
    "zarr-python": ("zarr-python-by-column", "zarr-python-by-batch"),
    "tensorstore": ("tensorstore-by-batch",),
}
CODECS = {"none": "none", "zstd1": "zstd:1"}
INPUTS = {"convert": "stations.arrow", "convert-parquet": "stations.parquet"}
BYTES_PER_ROW = sum(f.type.bit_width // 8 for f in gen.SCHEMA)


class Bench:
    def __init__(self, folder: Path, chunk_rows: int):
        self.folder, self.chunk_rows = folder, chunk_rows
        self.seconds: dict[tuple[str, str, str], list[float]] = {}
        self.compared = {"passed": 0, "failed": 0, "skipped": 0}

    def command(self, program: str, source: str, codec: str, output: Path | str) -> list[str]:
        rows = str(self.chunk_rows)
        if program == OURS:
            flags = ["--device", "cpu", "--codec", CODECS[codec], "--chunk-rows", rows, "--no-progress"]
            return [str(record.ROOT / "bin/arrow2zarr"), "convert", f"{self.folder / source}", str(output), *flags]
        if program == LIMIT:
            return [sys.executable, str(record.ROOT / "bench/limits.py"), str(self.folder / source), str(output), codec, rows]
        return [sys.executable, str(record.ROOT / "bench/peers.py"), program, str(self.folder / source), str(output), codec, rows]

    def run(self, program: str, source: str, codec: str) -> Path:
        """Converts once, records the time and returns the output."""
        output = self.folder / f"{program}.zarr"
        shutil.rmtree(output, ignore_errors=True)
        start = time.perf_counter()
        done = subprocess.run(self.command(program, source, codec, output), capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"{' '.join(done.args)}: exit code {done.returncode}\n{done.stderr}")
        if program != OURS:
            seconds = float(done.stdout)
        self.seconds.setdefault((program, source, codec), []).append(seconds)
        print(f"  {source:17} {codec:6} {program:22} {seconds:7.3f} s", flush=True)
        return output

    def rate(self, program: str, source: str, codec: str, choose=min) -> float:
        """GB/s, by the size of the columns in memory."""
        rows = gen.BATCH * gen.BATCHES
        return rows * BYTES_PER_ROW / choose(self.seconds[program, source, codec]) / 1e9

    def compare(self, outputs: dict[str, Path], batches: list[pa.RecordBatch]) -> None:
        """Checks that every program wrote the columns of the input."""
        for program, output in outputs.items():
            for i, f in enumerate(gen.SCHEMA):
                got = read(output / f.name)
                ok = all(
                    same(got[k * gen.BATCH : (k + 1) * gen.BATCH], b.column(i).to_numpy()) for k, b in enumerate(batches)
                )
                self.compared["passed" if ok else "failed"] += 1
                if not ok:
                    print(f"{program}: column {f.name} differs from the input")

    def records(self) -> list[dict]:
        found = []
        for kind, source in INPUTS.items():
            for codec in CODECS:
                for peer, forms in PEERS.items():
                    form = max(forms, key=lambda f: self.rate(f, source, codec))
                    ours, theirs = (self.rate(p, source, codec) for p in (OURS, form))
                    medians = [self.rate(p, source, codec, statistics.median) for p in (OURS, form)]
                    limit = {}
                    if (LIMIT, source, codec) in self.seconds:
                        limit = {"limit": LIMITS[codec], "limit_value": self.rate(LIMIT, source, codec)}
                    command = f"arrow2zarr convert {source} OUT --device cpu --codec {CODECS[codec]} --chunk-rows {self.chunk_rows}"
                    found.append(
                        record.record(
                            f"{kind}-{codec}-vs-{peer}", "GB/s", ours, command, peer=f"pyarrow + {form}", peer_value=theirs,
                            median=round(medians[0], 4), peer_median=round(medians[1], 4),
                            rounds=len(self.seconds[OURS, source, codec]), **limit,
                        )
                    )  # fmt: skip
        return found


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def read(array: Path) -> np.ndarray:
    """The elements of an array. zarr-python reads times, which tensorstore does not
    support."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{array}/"}}
    try:
        return tensorstore.open(spec, read=True).result().read().result()
    except ValueError:
        import zarr

        return zarr.open_array(str(array), mode="r")[:]


def versions() -> dict[str, str]:
    found = {p: importlib.metadata.version(p) for p in ("pyarrow", "zarr", "numcodecs", "tensorstore", "numpy")}
    go = record.output_of("go", "version").split()
    return {"go": go[2] if len(go) > 2 else "", "python": platform.python_version(), **found}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunk-rows", type=int, default=gen.BATCH)
    parser.add_argument("--machine", default=f"{platform.machine().replace('_', '-')}-cpu")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench" / "results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm/quiver-bench"))
    options = parser.parse_args()

    bench = Bench(options.scratch, options.chunk_rows)
    try:
        print(f"writing the inputs to {options.scratch}", flush=True)
        gen.main(options.scratch)
        programs = [OURS, *(f for forms in PEERS.values() for f in forms)]
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}")
            for source in INPUTS.values():
                for codec in CODECS:
                    outputs = {p: bench.run(p, source, codec) for p in programs}
                    if source == INPUTS["convert"]:
                        bench.run(LIMIT, source, codec)
                    if number == 0:
                        bench.compare(outputs, list(gen.batches()))
    finally:
        shutil.rmtree(options.scratch, ignore_errors=True)

    records = bench.records()
    for r in records:
        print(f"{r['name']:38} {r['value']:7.3f} {r['unit']}  {r['peer']:32} {r['peer_value']:7.3f}  ratio {r['ratio']:6.2f}")
    path = record.write(options.results, "convert", record.machine(versions(), options.machine), records, tests=bench.compared)
    print(f"{bench.compared['passed']} columns compared equal, {bench.compared['failed']} not; written to {path.name}")
    return 1 if bench.compared["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
