"""Checks that the output of arrow2zarr equals its input.

Every input is converted and read back with zarr-python, tensorstore, zarrita, anndata
and awkward. Every value, null and type must equal what pyarrow reads from the input,
floats bitwise. The root must open as a data frame of anndata and as a dataset of xarray.
Every output is restored, and must equal its input again; verify must agree.

Usage: check.py [--command bin/arrow2zarr] [--device cpu] [--keep FOLDER]
       [--only TEXT] [-v]
"""

import argparse
import base64
import collections
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import xarray
import zarr

import inputs
import nested
import readers
import reference

USAGE, INPUT = 2, 3


@dataclass
class Case:
    """One conversion and its expected result."""

    path: Path
    table: pa.Table
    columns: list[str] | None = None  # the value of --columns
    flags: tuple[str, ...] = ()
    piped: bool = False  # read from standard input
    refused: list[pa.Field] | None = None  # the error must name one of these
    output: Path | None = None
    counts: collections.Counter = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        chosen = [] if self.columns is None else [f"({len(self.columns)} of {self.table.num_columns} columns)"]
        return " ".join([label(self.path), *chosen, *self.flags, *(["by pipe"] if self.piped else [])])


def label(path: Path) -> str:
    """The name of an input with its folder, which makes it unique."""
    return f"{path.parent.name}/{path.name}"


def cases(paths: list[Path]) -> list[Case]:
    """Returns a case per input, and one with only its supported columns if not all are."""
    found = []
    for path in paths:
        table = reference.read(path)
        found.append(Case(path, table))
    return found


def variants(of: list[Case]) -> list[Case]:
    """Returns further cases of some inputs with other flags."""
    by_name = {label(c.path): c for c in of if c.refused is None}
    flags = [
        ("--codec", "none"),
        ("--codec", "gzip:6"),
        ("--codec", "blosc:lz4"),
        ("--codec", "auto:small", "--codec", "text=blosc:zstd:3:bitshuffle", "--codec", "bool=blosc:zlib"),
        ("--codec", "zstd:9", "--chunk-rows", "7"),
        ("--codec", "none", "--chunk-rows", "7", "--shard-rows", "28"),
        ("--codec", "zstd:1", "--chunk-rows", "16", "--shard-rows", "64", "--jobs", "3"),
        ("--chunk-rows", "1"),
    ]
    found = []
    # Each input has other flags than the next, and each of the flags several inputs.
    chosen = {
        "made/nulls.arrow": flags,
        "made/uneven.arrows": flags[1::2],
        "made/nulls.parquet": flags[::2],
        "made/replaced-dictionaries.arrows": flags[1::2],
        "made/empty.arrow": flags[:6:2],
        "made/all-null.arrow": flags[1:6:2],
    }
    for name, some in chosen.items():
        found += [Case(by_name[name].path, by_name[name].table, flags=f) for f in some]
    weather = by_name["testdata/weather.arrow"]
    large = ("--codec", "gzip", "--chunk-rows", "1000", "--shard-rows", "5000")
    found.append(Case(weather.path, weather.table, flags=large))
    found.append(Case(weather.path, weather.table, flags=("--max-memory", "256MiB", "--jobs", "1")))
    for name in ("made/uneven.arrows", "testdata/weather.arrows"):
        found.append(Case(by_name[name].path, by_name[name].table, piped=True))
    return found


class Checker:
    def __init__(self, command: Path, device: str, folder: Path):
        self.command, self.device, self.folder = command, device, folder

    def convert(self, case: Case, number: int) -> None:
        """Runs the command and checks its exit code and the files that it left."""
        folder = self.folder / f"{number:03}"
        folder.mkdir(parents=True)
        output = folder / "out.zarr"
        arguments = [str(self.command), "convert", "-" if case.piped else str(case.path), str(output)]
        arguments += ["--device", self.device, "--no-progress", *case.flags]
        if case.columns is not None:
            arguments += ["--columns", ",".join(case.columns)]
        stdin = open(case.path, "rb") if case.piped else subprocess.DEVNULL
        run = subprocess.run(arguments, stdin=stdin, capture_output=True, text=True, timeout=120)
        left = sorted(p.name for p in folder.iterdir())

        if case.refused is None:
            if run.returncode != 0 or left != [output.name]:
                case.faults.append(f"exit code {run.returncode}, left {left}: {run.stderr.strip()[-500:]}")
            else:
                case.output = output
            return
        if run.returncode != INPUT:
            case.faults.append(f"exit code {run.returncode}, expected {INPUT}: {run.stderr.strip()[-500:]}")
        if left:
            case.faults.append(f"left {left}, expected nothing")
        if not any(names(run.stderr, f) for f in case.refused):
            expected = ", ".join(f"{f.name} ({f.type})" for f in case.refused)
            case.faults.append(f"the error names none of {expected}: {run.stderr.strip()[-500:]}")
        case.counts["refused"] += 1

    def check(self, case: Case, others: list) -> None:
        """Compares an output with its input, read with zarr-python, anndata, awkward,
        xarray and other readers."""
        fields = list(case.table.schema)
        names = self.check_root(case, fields)
        arrays = readers.zarr_python(case.output)
        root = zarr.open_consolidated(str(case.output), mode="r")
        values = {path: a[...] for path, a in arrays.items()}
        index = root.attrs.get("_index", "_none")
        expected_names = {index} if index.startswith("_index") and "arrow_type" not in root[index].attrs else set()
        self.check_table(case, root)
        for i, (name, f) in enumerate(zip(names, fields)):
            try:
                if nested.is_known(f) and not reference.supported(f.type):
                    self.check_nested(case, case.table.column(i), root[name])
                    expected_names |= {path for path in values if path.startswith(name + "/")}
                elif nested.is_known(f):
                    expected = reference.column(f, case.table.column(i))
                    expected_names |= self.check_column(case, f, expected, name, root[name], values)
                else:  # pyarrow lacks the type
                    expected_names |= {path for path in values if path == name or path.startswith(name + "/")}
            except (Fault, KeyError, ValueError, TypeError) as e:
                case.faults.append(f"{f.name}: {type(e).__name__}: {e}")
        if not case.faults and set(values) != expected_names:
            case.faults.append(f"arrays {sorted(set(values) ^ expected_names)} are too few or too many")
        self.check_storage(case, arrays)

        # The values of zarr-python are now known to be right.
        for reader in others:
            readable = [p for p, a in values.items() if reader.can_read(a.dtype)]
            for path, got in reader.read(case.output, readable).items():
                if isinstance(got, Exception):
                    case.faults.append(f"{reader.name}: {path}: {got}")
                elif reason := difference(got, values[path]):
                    case.faults.append(f"{reader.name}: {path}: {reason}")
                case.counts[reader.name] += 1

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess:
        """Runs the command."""
        return subprocess.run([str(a) for a in (self.command, *arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    def round_trip(self, case: Case, form: str = ".arrow") -> None:
        """Compares what restore makes of an output with its input, and lets verify do so."""
        restored = case.output.parent / f"restored{form}"
        run = self.run("restore", case.output, restored)
        if run.returncode != 0:
            case.faults.append(f"restore: exit code {run.returncode}: {run.stderr.strip()[-500:]}")
        else:
            case.faults += (f"restored: {fault}" for fault in differences(reference.read(restored), case))
            case.counts["restored"] += case.table.num_columns
        run = self.run("verify", case.path, case.output)
        if run.returncode != 0:
            case.faults.append(f"verify: exit code {run.returncode}: {(run.stdout + run.stderr).strip()[-500:]}")
        case.counts["verified"] += case.table.num_columns

    def check_nested(self, case: Case, data: pa.ChunkedArray, node) -> None:
        """Compares a nested column with what anndata and awkward read."""
        case.counts["columns"] += 1
        expected = list(itertools.chain.from_iterable(nested.expected(c) for c in data.chunks))
        got = nested.read(node) if isinstance(node, zarr.Group) else node[...].tolist()
        if len(got) != len(expected):
            raise Fault(f"{len(got)} rows by awkward, expected {len(expected)}")
        for row, (g, e) in enumerate(zip(got, expected)):
            if g != e:
                raise Fault(f"row {row} by awkward: {g!r}, expected {e!r}")
        case.counts["awkward"] += 1

    def check_table(self, case: Case, root: zarr.Group) -> None:
        """Checks that the root opens as a data frame and as a dataset."""
        dataset = xarray.open_zarr(case.output)
        missing = {n for n, a in root.arrays()} - set(dataset.variables)
        if missing:
            case.faults.append(f"xarray lacks {missing}")
        case.counts["xarray"] += 1
        if root.attrs.get("encoding-type") != "dataframe":
            return
        frame = readers.read_frame(root)
        if list(frame.columns) != list(root.attrs["column-order"]) or len(frame) != case.table.num_rows:
            case.faults.append(f"the frame has columns {list(frame.columns)} and {len(frame)} rows")
        case.counts["frame"] += 1

    def check_root(self, case: Case, fields: list[pa.Field]) -> list[str]:
        """Checks the attributes of the root, and returns the names of the columns' nodes."""
        root = zarr.open_group(str(case.output), mode="r")
        attributes = dict(root.attrs)
        names = attributes.get("arrow_columns")
        own = [root[n].attrs.get("arrow_name", n) for n in names]
        if own != [f.name for f in fields]:
            case.faults.append(f"arrow_columns are of {own}, expected {[f.name for f in fields]}")
        if attributes.get("num_rows") != case.table.num_rows:
            case.faults.append(f"num_rows is {attributes.get('num_rows')}, expected {case.table.num_rows}")
        kept = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(attributes["arrow_schema"])))
        exact = case.path.suffix != ".parquet"
        if exact and (kept.metadata or {}) != (case.table.schema.metadata or {}):
            case.faults.append(f"arrow_schema has metadata {kept.metadata}, expected {case.table.schema.metadata}")
        for got, f in itertools.zip_longest(kept, fields):
            # The Arrow schema of a Parquet file depends on its reader: it lacks field metadata.
            if f is not None and not nested.is_known(f):
                continue
            if got is None or f is None or not same_field(got, f, exact):
                case.faults.append(f"arrow_schema has field {got}, expected {f}")
        return names

    def check_column(self, case, field, expected: reference.Column, name: str, node, values: dict) -> set[str]:
        """Compares one column with what zarr-python and anndata read, and returns the
        paths of its arrays."""
        shape = {"array": zarr.Array}.get(expected.form, zarr.Group)
        if not isinstance(node, shape):
            raise Fault(f"is a {type(node).__name__}, expected a {shape.__name__}")
        case.counts["columns"] += 1

        if isinstance(node, zarr.Array):
            same("values", values[name], expected.values)
            paths = {name}
        elif expected.form == "categorical":
            codes, categories = values[f"{name}/codes"], values[f"{name}/categories"]
            if codes.dtype.kind != "i":
                raise Fault(f"codes of type {codes.dtype}, expected signed integers")
            same("missing rows", codes == -1, expected.missing)
            same("values", decode(codes, categories, expected), expected.values)
            paths = {f"{name}/codes", f"{name}/categories"}
        else:
            same("values", values[f"{name}/values"], expected.values)
            same("missing rows", values.get(f"{name}/mask", np.zeros_like(expected.missing)), expected.missing)
            paths = {f"{name}/values"} | ({f"{name}/mask"} & set(values))
            if expected.form == "null" or expected.missing.any():
                paths.add(f"{name}/mask")
            elements = values.get(f"{name}/element_mask")
            if expected.element_missing is not None and elements is not None:
                present = ~expected.missing
                same("missing elements", elements[present], expected.element_missing[present])
                paths.add(f"{name}/element_mask")
            elif expected.element_missing is not None and expected.element_missing[~expected.missing].any():
                raise Fault("no element_mask")
        case.counts["zarr-python"] += len(paths)
        self.check_attributes(field, expected, node)
        if expected.encoding is not None:
            got, missing = readers.read_anndata(node)
            same("missing rows by anndata", missing, expected.missing)
            if expected.values.dtype.kind in "mM":  # pandas has no days
                got = got.astype(expected.values.dtype)
            same("values by anndata", fill(got, missing, expected), expected.values)
            case.counts["anndata"] += 1
        return paths

    def check_attributes(self, field: pa.Field, expected: reference.Column, node) -> None:
        attributes, t = node.attrs, reference.storage(field.type)
        wanted = {}
        if expected.encoding is not None:
            wanted["encoding-type"] = expected.encoding
        if pa.types.is_dictionary(t):
            wanted["ordered"] = t.ordered
        if pa.types.is_timestamp(t) and t.tz is not None:
            wanted["timezone"] = t.tz
        if pa.types.is_decimal(t):
            wanted |= {"precision": t.precision, "scale": t.scale}
        if not isinstance(attributes.get("arrow_type"), str):
            raise Fault("no attribute arrow_type")
        for key, value in wanted.items():
            if key not in attributes or attributes[key] != value or type(attributes[key]) is not type(value):
                raise Fault(f"attribute {key} is {attributes.get(key)!r}, expected {value!r}")

    def check_storage(self, case: Case, arrays: dict[str, zarr.Array]) -> None:
        """Checks that chunks and codecs match the flags."""
        flags = dict(zip(case.flags[::2], case.flags[1::2]))
        codec = flags.get("--codec", "zstd").partition(":")[0]
        known = {"none": [], "zstd": ["ZstdCodec"], "gzip": ["GzipCodec"], "blosc": ["BloscCodec"]}
        codec = known.get(codec) if case.flags.count("--codec") < 2 else None  # None: arrays differ
        for path, a in arrays.items():
            if a.size == 0 or a.nchunks_initialized == 0 or path.endswith("/categories") or path.startswith("_index") or "-" in path:
                continue  # stored as a fill value alone, or not chunked by rows
            if codec is not None and [type(c).__name__ for c in a.compressors] != codec:
                case.faults.append(f"{path}: compressed by {a.compressors}, expected {codec}")
            rows = int(flags.get("--chunk-rows", a.chunks[0]))
            if a.chunks[0] not in (rows, min(rows, a.shape[0])) and a.shards is None:
                case.faults.append(f"{path}: chunks of {a.chunks[0]} rows, expected {rows}")
            if "--shard-rows" in flags and a.shape[0] > rows and (a.shards is None or a.chunks[0] != rows):
                case.faults.append(f"{path}: shards {a.shards} of chunks {a.chunks}, expected {case.flags}")


class Fault(Exception):
    """A difference from the expected result."""


def same_field(got: pa.Field, want: pa.Field, exact: bool) -> bool:
    """Reports whether fields are equal. pyarrow keeps that the keys of a map of Parquet are
    sorted only if it changes a type inside of the map, so that does not count there."""
    if got.equals(want, check_metadata=exact):
        return True
    return not exact and unsorted(got).equals(unsorted(want))


def unsorted(f: pa.Field) -> pa.Field:
    """The field with maps whose keys are not sorted."""
    t = f.type
    if isinstance(t, pa.MapType):
        return f.with_type(pa.map_(unsorted(t.key_field), unsorted(t.item_field)))
    if isinstance(t, pa.StructType):
        return f.with_type(pa.struct([unsorted(inner) for inner in t]))
    if isinstance(t, pa.FixedSizeListType):
        return f.with_type(pa.list_(unsorted(t.value_field), t.list_size))
    if isinstance(t, pa.ListType):
        return f.with_type(pa.list_(unsorted(t.value_field)))
    if isinstance(t, pa.LargeListType):
        return f.with_type(pa.large_list(unsorted(t.value_field)))
    return f


def differences(got: pa.Table, case: Case) -> list[str]:
    """Describes how a restored table differs from a case's input."""
    expected, faults = case.table, []
    exact = case.path.suffix != ".parquet"
    if exact and (got.schema.metadata or {}) != (expected.schema.metadata or {}):
        faults.append(f"the schema has metadata {got.schema.metadata}, expected {expected.schema.metadata}")
    if got.shape != expected.shape or got.column_names != expected.column_names:
        return [*faults, f"{got.shape} with columns {got.column_names}, expected {expected.shape} with {expected.column_names}"]
    for i, f in enumerate(expected.schema):
        if not same_field(got.field(i), f, exact):
            faults.append(f"{f.name}: the field is {got.field(i)}, expected {f}")
        elif nested.is_known(f) and not got.column(i).equals(expected.column(i)):
            # pyarrow compares neither NaN nor dictionaries by their values.
            a, b = (itertools.chain.from_iterable(nested.expected(c) for c in t.column(i).chunks) for t in (got, expected))
            for row, (g, e) in enumerate(itertools.zip_longest(a, b)):
                if g != e:
                    faults.append(f"{f.name}, row {row}: {g!r}, expected {e!r}")
                    break
    return faults


def names(message: str, f: pa.Field) -> bool:
    """Reports whether an error names a column and its type."""
    kind = str(f.type).partition("<")[0].partition("[")[0].partition("(")[0]
    twice = "more than once" in message or "duplicate" in message
    return f.name in message and (twice or kind in message)


def decode(codes: np.ndarray, categories: np.ndarray, expected: reference.Column) -> np.ndarray:
    """The categories of codes, with the fill value for missing rows."""
    if len(codes) and codes.max() >= len(categories):
        raise Fault(f"code {codes.max()} of {len(categories)} categories")
    if len(categories) == 0:
        return expected.values[:0] if len(codes) == 0 else fill(np.empty_like(expected.values), codes < 0, expected)
    return fill(categories[np.where(codes < 0, 0, codes)], codes < 0, expected)


def fill(values: np.ndarray, missing: np.ndarray, expected: reference.Column) -> np.ndarray:
    """The values with the expected fill value in missing rows."""
    values = np.array(values)
    if missing.any() and expected.missing.any():
        values[missing] = expected.values[expected.missing][0]
    return values


def same(what: str, got: np.ndarray, expected: np.ndarray) -> None:
    if reason := difference(got, expected):
        raise Fault(f"{what}: {reason}")


def difference(got: np.ndarray, expected: np.ndarray) -> str | None:
    """Describes how two arrays differ in shape, dtype or values (bitwise)."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    text = [readers.is_text(a.dtype) or a.dtype == object for a in (got, expected)]
    if all(text):
        got, expected = got.astype(object), expected.astype(object)
        unequal = np.array([type(g) is not type(w) or g != w for g, w in zip(got.flat, expected.flat)], bool)
    elif got.dtype.newbyteorder("<") != expected.dtype.newbyteorder("<"):
        return f"dtype {got.dtype}, expected {expected.dtype}"
    elif got.size == 0:
        return None
    else:
        bits = [np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).view(f"V{a.dtype.itemsize}") for a in (got, expected)]
        unequal = (bits[0] != bits[1]).ravel()
    if not unequal.any():
        return None
    at = int(np.argmax(unequal))
    return f"{int(unequal.sum())} of {got.size} differ, first element {at}: {got.flat[at]!r}, expected {expected.flat[at]!r}"


def report(done: list[Case], verbose: bool) -> int:
    """Prints a line per case and returns the number of failed cases."""
    columns = ("columns", "zarr-python", "tensorstore", "zarrita", "anndata", "awkward", "frame", "xarray", "restored", "verified")
    width = max(len(str(c)) for c in done)
    print(f"{'arrays read by':>{width}}  {'  '.join(f'{c:>11}' for c in columns)}")
    for case in done:
        if case.faults:
            print(f"FAIL {case}")
            for fault in case.faults if verbose else case.faults[:5]:
                print(f"     {fault}")
            if len(case.faults) > 5 and not verbose:
                print(f"     ... and {len(case.faults) - 5} more (-v shows them)")
        elif case.refused is not None:
            print(f"{str(case):{width}}  refused, as it should be")
        else:
            print(f"{str(case):{width}}  {'  '.join(f'{case.counts[c]:11}' for c in columns)}")
    total = sum((c.counts for c in done), collections.Counter())
    print(f"{'all':{width}}  {'  '.join(f'{total[c]:11}' for c in columns)}")
    return sum(bool(c.faults) for c in done)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", type=Path, default=inputs.ROOT / "bin" / "arrow2zarr")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--keep", type=Path, help="keep what was written in this folder")
    parser.add_argument("--only", default="", help="check only inputs with this in their name")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()

    if not inputs.SHARED.is_dir() and os.environ.get("CI"):
        sys.exit(f"{inputs.SHARED} is absent, and CI is set")
    shared = inputs.shared()
    if not shared:
        print(f"{inputs.SHARED} is absent: the files of other projects are left out")

    folder = options.keep or Path(tempfile.mkdtemp(prefix="interop-"))
    try:
        checker = Checker(options.command, options.device, folder / "zarr")
        todo = cases(inputs.made(folder / "made") + inputs.testdata() + shared)
        todo = [c for c in todo + variants(todo) if options.only in str(c)]
        for number, case in enumerate(todo):
            checker.convert(case, number)
        written = [c for c in todo if c.output is not None]
        zarrita = readers.Zarrita([c.output for c in written])
        for case in written:
            checker.check(case, [readers.Tensorstore(), zarrita])
            checker.round_trip(case)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    failed = report(todo, options.verbose)
    if not zarrita.float16:
        print("float16 was not read by zarrita: this Node has no Float16Array")
    print(f"{len(todo) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
