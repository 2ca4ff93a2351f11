"""Compares reading and writing Zarr v3 arrays with zarr-python, zarrs-python and
tensorstore, and records the result in bench/results.

Usage: zarr_cpu.py [--mib 1024] [--rounds 5] [--only TEXT [--update]] [--machine NAME]
                   [--results FOLDER] [--scratch FOLDER], run by `make bench-zarr`.

Arrays are float32 on a RAM disk, so no disk is measured. Each program is a process that
serves requests; in each round all of them do the same work one after the other. The best
round of each counts, and the fastest peer is compared. All read the arrays that
zarr-python wrote, into memory whose pages were touched before. In the first round all
elements are compared with those written, and zarr-python reads the arrays of the others.
The limit of a record is the sum of two times: Quiver's codec alone in memory, and system
calls alone that read or write as many bytes as are stored. Both use all cores.
With --only, cases whose name contains TEXT are measured and printed; with --update they
replace those of the newest record, if that is of the same commit and day.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import record

OURS = "Quiver"
WRITER = "zarr-python"  # of the arrays that are read
PEERS = (WRITER, "zarrs-python", "tensorstore")
CODECS = ("none", "zstd1", "blosc-lz4", "blosc-zstd", "gzip1")
MIB = (1 << 20) // 4  # elements
# The chunk and the shard, in elements.
LAYOUTS = {"1MiB": (MIB, 0), "16MiB": (16 * MIB, 0), "shards": (MIB, 64 * MIB)}
LENGTH = 100  # of a random read
CACHE = 256 << 20  # bytes, of programs that can cache decoded chunks
# Cases of random reads: the codec, and the number of reads.
RANDOM = {"zarr-random": ("none", 10_000), "zarr-random-zstd1": ("zstd1", 2000)}


def elements(n: int) -> np.ndarray:
    """A smooth curve plus noise, in steps of 1/64, like measurements."""
    generator = np.random.default_rng(1)
    curve = 15 + 10 * np.sin(np.arange(n, dtype=np.float32) / 5000)
    curve += generator.standard_normal(n, dtype=np.float32)
    return np.round(curve * 64) / 64


def size_of(folder: Path) -> int:
    """The bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Program:
    """A process that serves requests."""

    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.reply().strip()

    def reply(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with exit code {self.process.wait()}")
        return line

    def ask(self, request: dict) -> float:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return float(self.reply())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Bench:
    def __init__(self, folder: Path, mib: int, rounds: int):
        self.folder, self.n, self.rounds = folder, mib * MIB, rounds
        self.data = folder / "data"
        elements(self.n).tofile(self.data)
        binary = folder / "zarrtimes"
        subprocess.run(["go", "build", "-o", str(binary), "./bench/zarrtimes"], cwd=record.ROOT, check=True, env=os.environ | {"CGO_ENABLED": "0"})
        self.programs = {OURS: Program(OURS, [str(binary)])}
        for name in PEERS:
            self.programs[name] = Program(name, [sys.executable, str(record.ROOT / "bench/zarr_peers.py"), name])
        self.records: list[dict] = []
        self.alone: dict[tuple, float] = {}  # least seconds of a codec, by operation and chunk
        self.plain: dict[tuple, float] = {}  # least seconds of system calls, by operation and layout

    def request(self, op: str, path: Path, codec: str, layout: str, **more) -> dict:
        chunk, shard = LAYOUTS[layout]
        shape = {"shape": [self.n], "chunk": [chunk], "shard": [min(shard, self.n)] if shard else []}
        return {"op": op, "path": str(path), "codec": codec, "data": str(self.data)} | shape | more

    def rotated(self, number: int) -> list[str]:
        """The programs, beginning with another one in each round."""
        names = list(self.programs)
        at = number % len(names)
        return names[at:] + names[:at]

    def layout(self, codec: str, layout: str) -> None:
        written = self.folder / "written"
        seconds: dict[str, dict[str, list[float]]] = {"write": {}, "read": {}}
        stored: dict[str, int] = {}  # bytes
        source = self.folder / "source"
        shutil.rmtree(source, ignore_errors=True)
        self.programs[WRITER].ask(self.request("write", source, codec, layout))
        stored["read"] = size_of(source)
        for number in range(self.rounds):
            for name in self.rotated(number):
                shutil.rmtree(written, ignore_errors=True)
                took = self.programs[name].ask(self.request("write", written, codec, layout))
                seconds["write"].setdefault(name, []).append(took)
                if name == OURS:
                    stored["write"] = size_of(written)
                if number == 0:
                    self.programs[WRITER].ask(self.request("read", written, codec, layout, check=True))
            shutil.rmtree(written)
            for name in self.rotated(number):
                took = self.programs[name].ask(self.request("read", source, codec, layout, check=number == 0))
                seconds["read"].setdefault(name, []).append(took)
            for op, request in (("write", "encode"), ("read", "decode")):
                self.system_calls(op, layout)
                if codec != "none" and (op == "write" or not LAYOUTS[layout][1]):
                    took = self.programs[OURS].ask(self.request(request, source, codec, layout))
                    key = op, codec, LAYOUTS[layout][0]
                    self.alone[key] = min(took, self.alone.get(key, took))
        for op, found in seconds.items():
            self.add(f"zarr-{op}-{codec}-{layout}", "GB/s", {name: [self.rate(s) for s in all] for name, all in found.items()}, **self.limit(op, codec, layout, stored[op]))
        shutil.rmtree(source)

    def limit(self, op: str, codec: str, layout: str, stored: int) -> dict:
        """The limit of a case, if it was measured."""
        copies = self.plain[op, layout] * stored / (4 * self.n)
        if codec == "none":
            return {"limit": "system calls alone", "limit_value": self.rate(copies)}
        alone = self.alone.get((op, codec, LAYOUTS[layout][0]))
        if alone is None:
            return {}
        return {"limit": "the codec alone, and system calls for what is stored", "limit_value": self.rate(alone + copies), "codec_alone": round(self.rate(alone), 4)}

    def system_calls(self, op: str, layout: str) -> None:
        """Measures how long all cores take to write files of a layout, or to read them, with
        a system call for each chunk."""
        folder = self.folder / "plain"
        if op == "write":
            shutil.rmtree(folder, ignore_errors=True)
        took = self.programs[OURS].ask(self.request("store" if op == "write" else "load", folder, "none", layout))
        self.plain[op, layout] = min(took, self.plain.get((op, layout), took))

    def rate(self, seconds: float) -> float:
        return 4 * self.n / seconds / 1e9

    def random(self, name: str) -> None:
        source = self.folder / "source"
        codec, count = RANDOM[name]
        self.programs[WRITER].ask(self.request("write", source, codec, "shards"))
        time.sleep(2.5)  # until the files have versions
        found: dict[str, list[float]] = {}
        for number in range(self.rounds):
            for program in self.rotated(number):
                took = self.programs[program].ask(self.request("random", source, codec, "shards", count=count, length=LENGTH, cache=CACHE))
                found.setdefault(program, []).append(took / count * 1e6)
        self.add(name, "us", found)
        shutil.rmtree(source)

    def add(self, name: str, unit: str, found: dict[str, list[float]], **limit) -> None:
        best = min if unit in record.COSTS else max
        values = {program: best(all) for program, all in found.items()}
        peer = best(PEERS, key=values.__getitem__)
        all_peers = {program: round(values[program], 4) for program in PEERS}
        entry = record.record(
            name, unit, values[OURS], f"bench/zarr_cpu.py --mib {self.n // MIB} --rounds {self.rounds}", peer=peer, peer_value=values[peer], peers=all_peers,
            median=round(statistics.median(found[OURS]), 4), peer_median=round(statistics.median(found[peer]), 4), rounds=self.rounds, **limit,
        )  # fmt: skip
        self.records.append(entry)
        medians = entry["median"] / entry["peer_median"]
        if unit in record.COSTS:
            medians = 1 / medians
        share = f"  {entry['share']:.0%} of the limit" if limit else ""
        others = "  ".join(f"{program} {value:8.3f}" for program, value in all_peers.items())
        print(f"{name:28} {values[OURS]:8.3f} {unit:4} ratio {entry['ratio']:6.2f} medians {medians:5.2f}  {others}{share}", flush=True)

    def close(self) -> None:
        for program in self.programs.values():
            program.close()


def versions() -> dict[str, str]:
    found = {p: importlib.metadata.version(p) for p in ("zarr", "zarrs", "tensorstore", "numcodecs", "numpy")}
    go = record.output_of("go", "version").split()
    return {"go": go[2] if len(go) > 2 else "", "python": platform.python_version(), **found}


def kept(folder: Path, machine: dict, records: list[dict]) -> list[dict]:
    """The records of today's file, of the same commit, that were not measured again."""
    path = folder / f"{machine['date']}-{machine['name']}-zarr.json"
    if not path.exists():
        return []
    old = json.loads(path.read_text())
    again = {r["name"] for r in records}
    others = [r for r in old["records"] if r["name"] not in again]
    if others and old["machine"] != machine:
        sys.exit(f"{path.name} is of another commit or other versions: measure all cases")
    return others


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="quiver-bench-", dir=options.scratch))
    try:
        bench = Bench(folder, options.mib, options.rounds)
        # Its first line names the libraries that decompress.
        libraries = bench.programs[OURS].ready.removeprefix("ready ")
        machine = record.machine(versions() | {"codecs": libraries}, options.machine)
        for codec in CODECS:
            for layout in LAYOUTS:
                if any(options.only in f"zarr-{op}-{codec}-{layout}" for op in ("read", "write")):
                    bench.layout(codec, layout)
        for name in RANDOM:
            if options.only in name:
                bench.random(name)
        bench.close()
    finally:
        shutil.rmtree(folder)
    ratios = [r["ratio"] for r in bench.records]
    print(f"ratio to the fastest peer: least {min(ratios):.2f}, median {statistics.median(ratios):.2f}")
    shares = [r["share"] for r in bench.records if "share" in r]
    at_limit = [r["ratio"] / r.get("share", 1) for r in bench.records]
    print(f"share of the limit: least {min(shares):.2f}, median {statistics.median(shares):.2f}; at the limits the median ratio would be {statistics.median(at_limit):.2f}")
    if options.update or not options.only:
        path = record.write(options.results, "zarr", machine, kept(options.results, machine, bench.records) + bench.records)
        print(f"written to {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
