"""Compares nested columns, text, dictionaries and restore of arrow2zarr with pyarrow,
awkward and zarr-python, and records the result in bench/results.

Usage: tables_cpu.py [--rounds 5] [--mib 1024] [--only TEXT] [--machine NAME]
                     [--results FOLDER] [--scratch FOLDER]

Input and output are on a RAM disk. In each round, both sides do all work, one after the
other; the best round of each counts, and the median is recorded beside it. The time of
arrow2zarr is that of the whole process; that of a peer (table_peers.py) excludes the
start of Python and imports. The limit of nested columns with zstd is libzstd alone, on the
chunks of the output. verify compares every output of arrow2zarr with its input.
Text takes an eighth of the size, since zarr-python is slow with it.
"""

import argparse
import importlib.metadata
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import gen
import record
import table_inputs

ARROW2ZARR = str(record.ROOT / "bin" / "arrow2zarr")
PEERS = {
    "nested": "pyarrow + awkward + zarr-python",
    "text": "pyarrow + zarr-python",
    "dictionary": "pyarrow + zarr-python",
    "restore": "zarr-python + pyarrow",
}


@dataclass
class Case:
    name: str
    work: str  # of table_peers.py
    source: str
    output: str
    size: int  # bytes of the columns in memory
    flags: tuple[str, ...] = ()
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)  # libzstd alone


def timed(*command: str | Path) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(done.args)}: exit code {done.returncode}\n{done.stderr}")
    return time.perf_counter() - start, done.stdout


def remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def cases(folder: Path, size: int, only: str) -> list[Case]:
    """Writes the inputs, and returns the cases whose name contains a text."""
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    folder.mkdir(parents=True)
    found = []

    def want(name: str) -> bool:
        return only in name

    kinds = {"list": table_inputs.list_batch, "list-struct": table_inputs.struct_batch, "map": table_inputs.map_batch}
    for kind, batch in kinds.items():
        if want(f"convert-nested-{kind}"):
            total = table_inputs.write(folder / f"{kind}.arrow", batch, size)
            found += [Case(f"convert-nested-{kind}-{c.replace(':', '')}", "nested", f"{kind}.arrow", "out.zarr", total, ("--codec", c)) for c in ("none", "zstd:1")]
    if want("convert-text"):
        total = table_inputs.write(folder / "text.arrow", table_inputs.text_batch, size // 8)
        found += [Case(f"convert-text-{c.replace(':', '')}", "text", "text.arrow", "out.zarr", total, ("--codec", c)) for c in ("none", "zstd:1")]
    for distinct in (1_000_000, 3_000_000):
        name = f"convert-dictionary-{distinct // 1_000_000}m"
        if want(name):
            total = table_inputs.write_dictionary(folder / f"{name}.arrow", distinct, 2 * distinct)
            found.append(Case(name, "dictionary", f"{name}.arrow", "out.zarr", total, ("--codec", "zstd:1")))
    if want("restore"):
        total = table_inputs.stations(folder, max(1, size // (64 * gen.BATCH)))
        timed(ARROW2ZARR, "convert", folder / "stations.arrow", folder / "stations.zarr", "--no-progress", "--device", "cpu")
        for form, suffix in (("ipc", "arrow"), ("parquet", "parquet")):
            found.append(Case(f"restore-{form}", "restore", "stations.zarr", f"out.{suffix}", total))
    return found


def run(case: Case, folder: Path, check: bool) -> None:
    """Lets both sides do the work once."""
    source, output = folder / case.source, folder / case.output
    remove(output)
    if case.work == "restore":
        seconds, _ = timed(ARROW2ZARR, "restore", source, output)
        original, restored = folder / "stations.arrow", source
    else:
        seconds, _ = timed(ARROW2ZARR, "convert", source, output, "--device", "cpu", "--no-progress", *case.flags)
        original, restored = source, output
    case.ours.append(seconds)
    if check:
        timed(ARROW2ZARR, "verify", original, restored)
    peers = (sys.executable, record.ROOT / "bench" / "table_peers.py")
    codec = case.flags[1:2]
    if case.work == "nested" and codec == ("zstd:1",):
        case.limit.append(float(timed(*peers, "libzstd", output)[1]))
    remove(output)
    _, printed = timed(*peers, case.work, source, output, *codec)
    case.theirs.append(float(printed))
    remove(output)
    print(f"  {case.name:28} {case.ours[-1]:7.3f} s   {PEERS[case.work]:34} {case.theirs[-1]:7.3f} s", flush=True)


def records(done: list[Case]) -> list[dict]:
    found = []
    for c in done:
        rate = [c.size / choose(seconds) / 1e9 for seconds in (c.ours, c.theirs) for choose in (min, statistics.median)]
        limit = {"limit": "libzstd alone on all cores", "limit_value": c.size / min(c.limit) / 1e9} if c.limit else {}
        command = f"arrow2zarr {c.work if c.work == 'restore' else 'convert'} {c.source} {c.output} {' '.join(c.flags)}".strip()
        found.append(
            record.record(
                c.name, "GB/s", rate[0], command, peer=PEERS[c.work], peer_value=rate[2], bytes=c.size,
                median=round(rate[1], 4), peer_median=round(rate[3], 4), rounds=len(c.ours), **limit,
            )
        )  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1024, help="size of an input")
    parser.add_argument("--only", default="", help="only cases with this in their name; nothing is recorded")
    parser.add_argument("--machine", default="2-core")
    parser.add_argument("--results", type=Path, default=record.ROOT / "bench" / "results")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm/quiver-tables"))
    options = parser.parse_args()
    try:
        done = cases(options.scratch, options.mib << 20, options.only)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}")
            for case in done:
                run(case, options.scratch, check=number == 0)
    finally:
        shutil.rmtree(options.scratch, ignore_errors=True)
    found = records(done)
    for r in found:
        print(f"{r['name']:30} {r['value']:7.3f} {r['unit']}  {r['peer']:34} {r['peer_value']:7.3f}  ratio {r['ratio']:6.2f}" + (f"  {r['share']:.0%} of {r['limit']}" if "limit" in r else ""))
    if not options.only:
        versions = {p: importlib.metadata.version(p) for p in ("pyarrow", "awkward", "zarr", "numcodecs", "numpy")}
        path = record.write(options.results, "tables", record.machine(versions, options.machine), found)
        print(f"written to {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
