"""Checks arrow2zarr with random tables of every type that pyarrow has.

Each table is written as an Arrow IPC file or stream or as Parquet, and converted with
random flags, some of them by convert and append. What zarr-python, tensorstore, anndata,
awkward and xarray read must equal what pyarrow reads from the input. The restored table
must equal the input, and verify must agree; pyarrow must read the same from a Parquet
file of restore as from its own; of an input in which one value is another,
it must find the difference.

Usage: tables.py [--tables 200] [--seed SEED] [--first 0] [--keep FOLDER]
The seed and the number of a table that fails are printed; --first NUMBER --tables 1
repeats it.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pyarrow.types as types

import check
import inputs
import nested
import randomtables
import readers
import reference


def write(path: Path, table: pa.Table, compression: str | None, rng: np.random.Generator) -> bool:
    """Writes a table by the suffix of a path, and reports whether pyarrow can."""
    try:
        if path.suffix == ".parquet":
            encodings = {"use_dictionary": bool(rng.integers(2)), "data_page_version": str(rng.choice(["1.0", "2.0"]))}
            pa.parquet.write_table(table, path, row_group_size=int(rng.choice([7, 1000])), data_page_size=256, compression=compression or "none", **encodings)
            reference.read(path)
        else:
            inputs.write_ipc(path, [table], compression)
        return True
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError) as e:
        if path.suffix == ".arrows":
            raise
        path.unlink(missing_ok=True)
        return False


def flags(rng: np.random.Generator) -> tuple[str, ...]:
    chosen = []
    if rng.random() < 0.6:
        rows = int(rng.choice([1, 3, 16, 64, 1000]))
        chosen += ["--chunk-rows", str(rows)]
        if rng.random() < 0.4:
            chosen += ["--shard-rows", str(rows * int(rng.integers(1, 5)))]
    if rng.random() < 0.5:
        chosen += ["--codec", str(rng.choice(["none", "zstd:3", "gzip:1"]))]
    if rng.random() < 0.3:
        chosen += ["--max-memory", "256MiB"]
    if rng.random() < 0.3:
        chosen += ["--jobs", "1"]
    if rng.random() < 0.2:
        chosen += ["--index", "none"]
    return tuple(chosen)


def append(checker: check.Checker, case: check.Case, table: pa.Table, compression: str | None, rng: np.random.Generator) -> None:
    """Converts the first rows of a table, and appends the others by two or three calls."""
    cuts = sorted(int(c) for c in rng.integers(0, table.num_rows + 1, int(rng.integers(1, 3))))
    first, *more = [table.slice(a, b - a) for a, b in itertools.pairwise([0, *cuts, table.num_rows])]
    if case.path.suffix == ".arrows" and compression not in ("zstd", "lz4"):
        compression = None
    part = dataclasses.replace(case, path=case.path.with_stem("part0"), table=first, faults=case.faults)
    write(part.path, first, compression, rng)
    checker.convert(part, 0)
    case.output = part.output
    for i, rows in enumerate(more):
        path = case.path.with_stem(f"part{i + 1}")
        write(path, rows, compression, rng)
        if case.faults:
            return
        pairs = zip(case.flags[::2], case.flags[1::2])
        flags = itertools.chain.from_iterable(p for p in pairs if p[0] in ("--chunk-rows", "--jobs", "--max-memory"))
        run = checker.run("append", path, case.output, "--device", "cpu", *flags)
        if run.returncode != 0:
            case.faults.append(f"append of rows {cuts}: exit code {run.returncode}: {run.stderr.strip()[-500:]}")


def try_table(command: Path, folder: Path, seed: int, number: int) -> list[str]:
    """Checks one table, and returns what is wrong."""
    rng = np.random.default_rng([seed, number, 1])
    suffix = str(rng.choice([".arrow", ".arrows", ".arrows", ".parquet"]))
    compression = rng.choice([None, "zstd", "lz4"])
    if suffix == ".parquet":
        compression = rng.choice([None, "zstd", "snappy", "gzip", "lz4", "brotli"])
    tables = randomtables.Tables([seed, number], parquet=suffix == ".parquet")
    table = tables.table()
    folder.mkdir(parents=True)
    path = folder / f"in{suffix}"
    if not write(path, table, compression, rng):
        # Parquet lacks types, and a file cannot replace a dictionary.
        path = folder / "in.arrows"
        write(path, table, None, rng)
    case = check.Case(path, reference.read(path), flags=flags(rng), piped=path.suffix == ".arrows" and rng.random() < 0.3)
    checker = check.Checker(command, "cpu", folder / "zarr")
    if rng.random() < 0.35 and table.num_rows > 1:
        append(checker, case, table, compression, rng)
    else:
        checker.convert(case, 0)
    if case.faults:
        return case.faults
    checker.check(case, [readers.Tensorstore()])
    checker.round_trip(case, str(rng.choice([".arrow", ".arrows"])))
    case.faults += restored_parquet(checker, case)
    changed = tables.changed(table, nested.expected)
    if changed is None:
        return case.faults
    other, column, row = changed
    planted = folder / f"planted{path.suffix}"
    if not write(planted, other, None, rng):
        return case.faults
    run = checker.run("verify", planted, case.output)
    if run.returncode != 1 or f'column "{column}", row {row}:' not in run.stdout and column.isidentifier():
        case.faults.append(f"verify of another value of {column!r} in row {row}: exit code {run.returncode}: {(run.stdout + run.stderr).strip()[-500:]}")
    return case.faults


def is_kept(t: pa.DataType) -> bool:
    """Reports whether Parquet's readers return a type as it was: not seconds, date64, runs,
    decimals of negative scale, and dictionaries of anything but text."""
    t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t
    if types.is_dictionary(t):
        return t.value_type in (pa.string(), pa.binary())
    if types.is_decimal(t) and t.scale < 0:
        return False
    if types.is_run_end_encoded(t) or types.is_date64(t) or (types.is_timestamp(t) or types.is_time32(t)) and t.unit == "s":
        return False
    return all(is_kept(t.field(i).type) for i in range(t.num_fields))


def restored_parquet(checker: check.Checker, case: check.Case) -> list[str]:
    """Restores a table to Parquet. pyarrow must read the same as from its own file, and
    verify must agree. Columns that Parquet cannot hold are named."""
    path, own = case.output.parent / "restored.parquet", case.output.parent / "own.parquet"
    run = checker.run("restore", case.output, path)
    if run.returncode != 0:
        refused = any(m in run.stderr for m in ("has no form in Parquet", "beyond the range of Parquet's milliseconds", "the field says that none is"))
        return [] if refused else [f"restore to Parquet: exit code {run.returncode}: {run.stderr.strip()[-500:]}"]
    faults = []
    try:
        got = pa.parquet.read_table(path)
    except pa.ArrowInvalid:
        pa.parquet.write_table(case.table, own)
        with contextlib.suppress(pa.ArrowInvalid):  # a missing fixed_size_list inside of a list
            return [f"pyarrow reads its own file only, of {pa.parquet.read_table(own).schema}"]
        return []
    if got.shape != case.table.shape:
        return [f"{got.shape} in Parquet, expected {case.table.shape}"]
    for i, f in enumerate(case.table.schema):
        if not nested.is_known(f):
            continue
        try:
            pa.parquet.write_table(case.table.select([i]), own)
            expected = pa.parquet.read_table(own)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError, OSError):
            continue
        values = [[v for c in column.chunks for v in nested.expected(c)] for column in (got.column(i), expected.column(0))]
        for row, (g, e) in enumerate(itertools.zip_longest(*values)):
            if g != e:
                faults.append(f"{f.name} in Parquet, row {row}: {g!r}, expected {e!r}")
                break
    run = checker.run("verify", path, case.output)
    if run.returncode != 0 and all(is_kept(f.type) for f in case.table.schema):
        faults.append(f"verify of Parquet: exit code {run.returncode}: {(run.stdout + run.stderr).strip()[-500:]}")
    return faults


def attempt(command: Path, folder: Path, seed: int, number: int) -> list[str]:
    try:
        return try_table(command, folder, seed, number)
    except Exception:
        return [traceback.format_exc()]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", type=Path, default=inputs.ROOT / "bin" / "arrow2zarr")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--first", type=int, default=0, help="the number of the first table")
    parser.add_argument("--keep", type=Path, help="keep what was written in this folder")
    options = parser.parse_args()

    folder = options.keep or Path(tempfile.mkdtemp(prefix="tables-"))
    failed = 0
    try:
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            numbers = range(options.first, options.first + options.tables)
            tries = {n: pool.submit(attempt, options.command, folder / str(n), options.seed, n) for n in numbers}
            for n, future in tries.items():
                if faults := future.result():
                    failed += 1
                    print(f"FAIL --seed {options.seed} --first {n} --tables 1")
                    for fault in faults[:5]:
                        print(f"     {fault}", flush=True)
                if options.keep is None:
                    shutil.rmtree(folder / str(n), ignore_errors=True)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print(f"seed {options.seed}: {options.tables - failed} tables passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
