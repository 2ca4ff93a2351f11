"""Measures Quiver, its peers and the limits of the hardware on a GPU in one run, and
writes result files.

Usage: measure.py TOPIC... --tests FILE --results FOLDER --log FILE, run by run.sh. A
topic is cudabuf, arrow, columns, share, arrays, convert, decode, encode, shuffle, blosc, read, blas,
collective or all; the module of a topic describes it. collective needs two GPUs and is not part of all.
permutations is the part of arrays that only copies; pin measures pinned memory;
copykernels compares the kernels of such copies. The output is a
summary; the log has all details.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import sys
from pathlib import Path

import gobench
import record

TOPICS = {"cudabuf": "cudabuf", "arrow": "arrow", "columns": "columns", "share": "share",
          "arrays": "arrays", "permutations": "arrays.permutations", "pin": "cudabuf.pin_records", "copykernels": "arrays.copy_kernels",
          "convert": "conversion", "decode": "compression.decode_records", "encode": "compression.encode_records", "shuffle": "batches.shuffle_records", "blosc": "batches.blosc_records",
          "read": "reading", "blas": "blas", "collective": "collective"}  # fmt: skip  # modules by topic, or their functions other than records
PARTS = {"permutations", "copykernels", "collective", "pin"}  # not part of all
PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "torch", "nvidia-nccl-cu13", "nvidia-nccl-cu12", "rmm-cu13", "rmm-cu12", "numpy", "pyarrow")


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def measure(topics: list[str]):
    """Yields each topic with its records and its faults."""
    for topic in topics:
        try:
            module, _, function = TOPICS[topic].partition(".")
            yield topic, *getattr(importlib.import_module(module), function or "records")()
        except Exception as e:  # the other topics remain useful
            yield topic, [], [str(e)]


def summary(r: dict) -> str:
    peer = f"  {r['peer']} {r['peer_value']:.4g} (ratio {r['ratio']})" if "peer" in r else ""
    limit = f"  {r['limit']} (share {r['share']})" if "limit" in r else ""
    return f"{r['name']:28} {r['value']:10.4f} {r['unit']}{peer}{limit}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("topics", nargs="+", choices=(*TOPICS, "all"))
    parser.add_argument("--tests", type=Path, required=True, help="counts of tests, written by tests.py")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()

    tests = json.loads(options.tests.read_text()) if options.tests.exists() else None
    machine = record.machine(versions(), commit=gobench.commit())
    topics = [t for t in TOPICS if t in options.topics or "all" in options.topics and t not in PARTS]
    failed = False
    with options.log.open("w") as log:
        work = measure(topics)
        while True:
            with contextlib.redirect_stdout(log):
                item = next(work, None)
            if item is None:
                break
            topic, records, faults = item
            failed = failed or bool(faults) or not records
            print(f"==== {topic}: {len(records)} records")
            print("\n".join(summary(r) for r in records))
            print("\n".join(f"NOT MEASURED  {fault[:400]}" for fault in faults), flush=True)
            if records:
                record.write(options.results, topic, machine, records, tests=tests)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
