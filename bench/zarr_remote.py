"""Compares reading and writing Zarr v3 arrays in an object store with zarr-python and
tensorstore, and records the result in bench/results.

Usage: zarr_remote.py [--rounds 5] [--latency 0.05] [--machine NAME] [--results FOLDER]
                      [--scratch FOLDER], run by `make bench-zarr-remote`.

The store is bench/slowstore: S3 in the memory of a process of this machine, which delays
each response. So it is latency that is measured, not bandwidth. Every program has its own
number of requests at once, and is told none. Arrays are float32 in chunks of 1 MiB with
zstd:1; random reads are of 100 elements of an array in shards of 64 MiB, one after
another. All programs read the arrays that zarr-python wrote. In the first round what is
read is compared with what was written.
"""

import argparse
import importlib.metadata
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import record
import zarr_cpu

PEERS = ("zarr-python", "tensorstore")
CODEC = "zstd1"
ELEMENTS = 256 * zarr_cpu.MIB
READS = 50  # random ones
LENGTH = 100  # elements of one
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


class Bench:
    def __init__(self, folder: Path, endpoint: str):
        self.data, self.endpoint = folder / "data", endpoint
        zarr_cpu.elements(ELEMENTS).tofile(self.data)
        binary = folder / "zarrtimes"
        subprocess.run(["go", "build", "-o", str(binary), "./bench/zarrtimes"], cwd=record.ROOT, check=True)
        self.programs = {zarr_cpu.OURS: zarr_cpu.Program(zarr_cpu.OURS, [str(binary)])}
        for name in PEERS:
            self.programs[name] = zarr_cpu.Program(name, [sys.executable, str(record.ROOT / "bench/zarr_peers.py"), name])

    def ask(self, program: str, op: str, name: str, layout: str, **more) -> float:
        chunk, shard = zarr_cpu.LAYOUTS[layout]
        url = f"s3://tests/{name}?region=us-east-1&use_path_style=true&disable_https=true&endpoint={self.endpoint}"
        request = {"op": op, "path": url, "codec": CODEC, "data": str(self.data), "shape": [ELEMENTS], "chunk": [chunk], "shard": [shard] if shard else []}
        return self.programs[program].ask(request | more)

    def rounds(self, count: int, measure) -> dict[str, list[float]]:
        """What measure returns for each program, which take turns. It gets the number of the
        round."""
        found: dict[str, list[float]] = {name: [] for name in self.programs}
        names = list(self.programs)
        for number in range(count):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                found[name].append(measure(name, number))
        return found

    def run(self, rounds: int) -> dict[str, tuple[str, dict[str, list[float]]]]:
        rate = 4 * ELEMENTS / 1e9
        for layout in ("1MiB", "shards"):
            self.ask(zarr_cpu.WRITER, "write", layout, layout)
        arrays = iter(range(1000))
        random = {"count": READS, "length": LENGTH, "cache": zarr_cpu.CACHE}
        return {
            "zarr-s3-write": ("GB/s", self.rounds(rounds, lambda program, _: rate / self.ask(program, "write", f"written-{next(arrays)}", "1MiB"))),
            "zarr-s3-read": ("GB/s", self.rounds(rounds, lambda program, number: rate / self.ask(program, "read", "1MiB", "1MiB", check=number == 0))),
            "zarr-s3-random": ("us", self.rounds(rounds, lambda program, _: self.ask(program, "random", "shards", "shards", **random) / READS * 1e6)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds until each response")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))}-core")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench/results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    options = parser.parse_args()
    os.environ.update(KEYS)
    folder = Path(tempfile.mkdtemp(prefix="quiver-bench-", dir=options.scratch))
    try:
        server = folder / "slowstore"
        subprocess.run(["go", "build", "-o", str(server), "./bench/slowstore"], cwd=record.ROOT, check=True)
        with subprocess.Popen([server, f"-latency={options.latency}s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            bench = Bench(folder, process.stdout.readline().strip())
            cases = bench.run(options.rounds)
            for program in bench.programs.values():
                program.close()
            process.stdin.close()
    finally:
        shutil.rmtree(folder)
    records = []
    for name, (unit, found) in cases.items():
        best = min if unit in record.COSTS else max
        values = {program: best(all) for program, all in found.items()}
        peer = best(PEERS, key=values.__getitem__)
        entry = record.record(
            name, unit, values[zarr_cpu.OURS], f"bench/zarr_remote.py --rounds {options.rounds} --latency {options.latency}",
            peer=peer, peer_value=values[peer], peers={program: round(values[program], 4) for program in PEERS},
            median=round(statistics.median(found[zarr_cpu.OURS]), 4), peer_median=round(statistics.median(found[peer]), 4), rounds=options.rounds,
        )  # fmt: skip
        print(entry, flush=True)
        records.append(entry)
    machine = record.machine(zarr_cpu.versions() | {"obstore": importlib.metadata.version("obstore")}, options.machine)
    print(record.write(options.results, "zarr-remote", machine, records))


if __name__ == "__main__":
    main()
