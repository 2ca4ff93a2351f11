"""Checks that operations on hierarchies and arrays do what they do in zarr-python.

Random sequences of operations run in zarr-python and in Quiver, each on a folder of its
own: nodes are created, required, opened in every mode, moved, deleted and consolidated;
arrays, of which some are sharded or rectilinear, are resized, appended to, and read and
written by selections. Every outcome must be the same: a value, or an error. In the end
each implementation must read the same hierarchy from the folder of the other.

zarr-python 3.4 cannot move a node, nor select from a selection; NumPy and the file
system take its place.

Usage: zarrops.py [--sequences N] [--operations N] [--seed N] [-v]. It needs Go.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.core.group import GroupMetadata

warnings.filterwarnings("ignore")

ROOT = Path(__file__).resolve().parent.parent
PATHS = ["a", "b", "a/b", "a/c", "a/b/d", "b/c"]
MODES = ["r", "r+", "a", "w", "w-"]


def chance(rng: np.random.Generator, p: float) -> bool:
    return bool(rng.random() < p)


def pick(rng: np.random.Generator, items):
    return items[rng.integers(len(items))]


def random_array(rng: np.random.Generator, version: int) -> dict:
    shape = [int(n) for n in rng.integers(0 if chance(rng, 0.1) else 1, 8, pick(rng, [0, 1, 2, 2, 3]))]
    spec = {"shape": shape, "chunks": [int(rng.integers(1, 5)) for _ in shape], "fill": int(rng.integers(-3, 3))}
    if version == 3 and chance(rng, 0.4):
        spec["shards"] = [int(n * rng.integers(1, 4)) for n in spec["chunks"]]
    elif version == 3 and shape and all(shape) and chance(rng, 0.4):
        spec["edges"] = [edges(rng, n) for n in shape]
    if version == 3 and chance(rng, 0.5):
        spec["codecs"] = [pick(rng, ["zstd", "gzip", "crc32c"])]
        if chance(rng, 0.5):
            spec["order"] = [int(i) for i in rng.permutation(len(shape))]
        if "shards" in spec:
            spec["start"] = chance(rng, 0.5)
    return spec


def edges(rng: np.random.Generator, n: int) -> list[int]:
    out = []
    while sum(out) < n:
        out.append(int(rng.integers(1, n - sum(out) + 1)))
    return out


def metadata(spec: dict, version: int):
    """The metadata that zarr-python gives an array."""
    return zarr.create_array({}, zarr_format=version, **arguments(spec)).metadata


COMPRESSORS = {"zstd": ZstdCodec(level=1), "gzip": GzipCodec(level=1), "crc32c": Crc32cCodec()}


def arguments(spec: dict) -> dict:
    chunks = spec.get("edges") or tuple(spec["chunks"])
    if "codecs" in spec:
        how = {"shape": spec["shape"], "chunks": chunks, "dtype": "<i4", "fill_value": spec["fill"]}
        filters, compressors = [TransposeCodec(order=tuple(spec["order"]))] if "order" in spec else [], [COMPRESSORS[name] for name in spec["codecs"]]
        if "shards" not in spec:
            return how | {"filters": filters or None, "compressors": compressors}
        codec = ShardingCodec(chunk_shape=chunks, codecs=[*filters, BytesCodec(), *compressors], index_location="start" if spec["start"] else "end")
        return how | {"chunks": tuple(spec["shards"]), "serializer": codec, "filters": None, "compressors": None}
    return {"shape": spec["shape"], "chunks": chunks, "shards": spec.get("shards"), "dtype": "<i4", "fill_value": spec["fill"], "compressors": None, "filters": None}


def random_key(rng: np.random.Generator, n: int, kinds: list[str]) -> dict:
    match pick(rng, kinds):
        case "at":
            return {"at": int(rng.integers(-n - 1, n + 1)) if chance(rng, 0.1) or n == 0 else int(rng.integers(-n, n))}
        case "slice":
            bounds = [None if chance(rng, 0.2) else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
            return {"slice": [*bounds, int(rng.integers(1, 4)) if chance(rng, 0.5) else None]}
        case "span":
            start = int(rng.integers(0, n))
            return {"slice": [start, int(rng.integers(start + 1, n + 1)), None]}
        case "list":
            return {"list": [int(i) - n * chance(rng, 0.3) for i in rng.permutation(n)[: rng.integers(1, 5)]]}
        case "mask":
            return {"mask": [chance(rng, 0.5) for _ in range(n)]}


def malformed_selection(rng: np.random.Generator, shape: tuple) -> dict:
    """A selection that does not fit."""
    n, axis = len(shape), int(rng.integers(0, len(shape)))
    whole = [{"slice": [None, None, None]} for _ in shape]

    def with_key(key: dict) -> list[dict]:
        return [*whole[:axis], key, *whole[axis + 1 :]]

    match pick(rng, ["step", "keys", "ellipses", "mask", "list", "points", "axis mask", "coordinates"]):
        case "step":
            return {"kind": "basic", "keys": with_key({"slice": [None, None, pick(rng, [-1, 0, -2])]})}
        case "keys":
            return {"kind": pick(rng, ["basic", "outer"]), "keys": [*whole, {"at": 0}]}
        case "ellipses":
            return {"kind": "basic", "keys": [{"ellipsis": True}, {"ellipsis": True}]}
        case "mask":
            wrong = [e + (i == axis) for i, e in enumerate(shape)]
            return {"kind": "mask", "mask": [True] * int(np.prod(wrong)), "shape": wrong}
        case "list":
            return {"kind": "outer", "keys": with_key({"list": [0, pick(rng, [shape[axis], -shape[axis] - 1])]})}
        case "points":
            return {"kind": "points", "points": [[pick(rng, [e, -e - 1]) if i == axis else 0] for i, e in enumerate(shape)], "shape": [1]}
        case "axis mask":
            return {"kind": "outer", "keys": with_key({"mask": [True] * (shape[axis] + 1)})}
        case "coordinates":
            return {"kind": "points", "points": [[0]] * (n + 1), "shape": [1]}


def random_selection(rng: np.random.Generator, shape: tuple, blocks: tuple = ()) -> dict:
    """A selection. The number of blocks along each axis counts for whole arrays.

    No position occurs twice: zarr-python then mixes up elements of shards.
    """
    if shape and all(shape) and chance(rng, 0.05):
        return malformed_selection(rng, shape)
    kind = pick(rng, ["basic", "basic", "outer", "points", "mask", *(["blocks"] if blocks and all(blocks) else [])])
    n = len(shape)
    if kind == "mask" and n:
        return {"kind": kind, "mask": [chance(rng, 0.4) for _ in range(int(np.prod(shape)))], "shape": list(shape)}
    if kind == "points" and n and all(shape):
        numbers = rng.permutation(int(np.prod(shape)))[: rng.integers(1, 5)]
        points = [[int(i) - e * chance(rng, 0.3) for i in axis] for axis, e in zip(np.unravel_index(numbers, shape), shape, strict=True)]
        return {"kind": kind, "points": points, "shape": [2, 2] if len(numbers) == 4 and chance(rng, 0.5) else [len(numbers)]}
    if kind == "blocks":
        # zarr-python refuses spans without blocks; in Quiver they are empty.
        return {"kind": kind, "keys": [random_key(rng, n, ["at", "span"]) for n in blocks[: rng.integers(0, n + 1)]]}
    # zarr-python cannot select by lists from empty axes.
    keys = [random_key(rng, e, ["at", "slice", "list", "mask"] if kind == "outer" and e else ["at", "slice"]) for e in shape[: rng.integers(0, n + 1)]]
    if kind == "basic" and chance(rng, 0.2):
        keys.append({"ellipsis": True})
    return {"kind": "outer" if kind == "outer" else "basic", "keys": keys}


def python_key(k: dict):
    if "at" in k:
        return k["at"]
    if "slice" in k:
        return slice(*k["slice"])
    if "ellipsis" in k:
        return Ellipsis
    return np.array(k["mask"], bool) if "mask" in k else np.array(k["list"], int)


def select(a, s: dict, shape: tuple):
    """The indexer and the key of zarr-python for a selection."""
    keys = tuple(python_key(k) for k in s.get("keys", []))
    match s["kind"]:
        case "points":
            return a.vindex, tuple(np.array(p).reshape(s["shape"]) for p in s["points"])
        case "mask":
            return a.vindex, np.array(s["mask"], bool).reshape(s["shape"])
        case "blocks":
            return a.blocks, keys + (slice(None),) * (len(shape) - len(keys))
        case "outer":
            return a.oindex, keys + (slice(None),) * (len(shape) - len(keys))
    return a, keys or Ellipsis


def numbers(positions: np.ndarray, s: dict) -> np.ndarray:
    """Selects from the numbers of elements, which NumPy holds."""
    keys = tuple(python_key(k) for k in s.get("keys", []))
    match s["kind"]:
        case "points":
            if len(s["points"]) != positions.ndim:
                raise IndexError("NumPy keeps other axes whole")
            return positions[tuple(np.array(p).reshape(s["shape"]) for p in s["points"])]
        case "mask":
            return positions[np.array(s["mask"], bool).reshape(s["shape"])]
        case "outer":
            if len(keys) > positions.ndim:
                raise IndexError("too many keys")
            for axis in reversed(range(len(keys))):
                positions = positions[(slice(None),) * axis + (keys[axis],)]
            return positions
    if any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys):
        raise IndexError("NumPy has negative steps")
    return positions[keys]


class Reference:
    """The operations in zarr-python."""

    def __init__(self, folder: Path, version: int):
        self.folder, self.version = folder, version

    def root(self):
        return zarr.open_group(self.folder, mode="r+", use_consolidated=False)

    def do(self, op: dict):
        return getattr(self, op["op"].replace(" ", "_"))(op)

    def open_group(self, op):
        self.check_above(op)
        zarr.open_group(self.folder, path=op["path"], mode=op["mode"], zarr_format=None if op["mode"] in ("r", "r+") else self.version, use_consolidated=False)

    def check_above(self, op):
        """zarr-python deletes chunks of an array above a group that it opens for writing."""
        parts = op["path"].split("/")
        for i in range(1, len(parts)):
            if hasattr(self.root().get("/".join(parts[:i])), "shape"):
                raise ValueError("an array is above")

    def open_array(self, op):
        if op["mode"] in ("r", "r+"):
            zarr.open_array(self.folder, path=op["path"], mode=op["mode"])
            return
        self.check_above(op)
        how = arguments(op["array"])
        if op["mode"] == "a":
            try:
                zarr.open_array(self.folder, path=op["path"], mode="r+")
                return
            except FileNotFoundError:
                pass
        zarr.create_array(self.folder, name=op["path"], overwrite=op["mode"] == "w", zarr_format=self.version, **how)

    def create_group(self, op):
        self.root().create_group(op["path"])

    def create_array(self, op):
        self.root().create_array(op["path"], **arguments(op["array"]))

    def require_group(self, op):
        self.root().require_group(op["path"])

    def require_array(self, op):
        how = arguments(op["array"])
        self.root().require_array(op["path"], **how)

    def delete(self, op):
        root = self.root()
        if op["path"] not in root:
            raise KeyError("zarr-python deletes what is not there; Quiver reports it")
        del root[op["path"]]

    def move(self, op):
        root, a, b = self.root(), op["path"], op["to"]
        if a == b or f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/"):
            raise ValueError("one is below the other")
        if a not in root:
            raise KeyError(a)
        if b in root:
            raise ValueError("exists")
        if "/" in b:
            root.require_group(b.rsplit("/", 1)[0])
        (self.folder / b).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.folder / a, self.folder / b)

    def contains(self, op):
        return op["path"] in self.root()

    def consolidate(self, op):
        """The members of consolidated metadata, which is removed again."""
        document = self.folder / ("zarr.json" if self.version == 3 else ".zmetadata")
        before = document.read_text() if document.exists() else None
        zarr.consolidate_metadata(self.folder)
        found = self.names(zarr.open_group(self.folder, mode="r", use_consolidated=True).members(max_depth=None))
        document.unlink() if before is None else document.write_text(before)
        return found

    def members(self, op):
        return self.names(self.root().members(max_depth=None if op["depth"] == 0 else op["depth"] - 1))

    def names(self, found) -> dict:
        return {name: list(node.shape) if hasattr(node, "shape") else "group" for name, node in found}

    def update_attributes(self, op):
        node = self.root()[op["path"]] if op["path"] else self.root()
        node.update_attributes(op["attributes"])
        return dict(node.attrs)

    def set_attributes(self, op):
        node = self.root()[op["path"]] if op["path"] else self.root()
        node.attrs.put(op["attributes"])
        return dict(node.attrs)

    def auto_chunks(self, op):
        with zarr.config.set({"array.target_shard_size_bytes": op["most"]}):
            a = zarr.create_array({}, shape=op["shape"], chunks="auto", shards="auto" if op["sharded"] else None, dtype="i4")
        return [list(a.shards or a.chunks), list(a.chunks)]

    def create_hierarchy(self, op):
        nodes = {(f"{op['path']}/{path}").strip("/"): GroupMetadata(zarr_format=self.version) if spec is None else metadata(spec, self.version) for path, spec in op["nodes"].items()}
        dict(zarr.create_hierarchy(store=zarr.storage.LocalStore(self.folder), nodes=nodes))

    def array(self, op):
        return zarr.open_array(self.folder, path=op["path"], mode="r+")

    def resize(self, op):
        self.array(op).resize(tuple(op["shape"]))

    def append(self, op):
        return list(self.array(op).append(np.array(op["values"], "i4").reshape(op["shape"]), axis=op["axis"]))

    def stored(self, op):
        a = self.array(op)
        chunks = a._shard_grid_shape if a.shards else a.cdata_shape
        stored = a._nshards_initialized if a.shards else a.nchunks_initialized
        return [a.nbytes, stored, list(chunks)]

    def read(self, op):
        a, (first, *rest) = self.array(op), op["views"]
        indexer, key = select(a, first, a.shape)
        got = np.asarray(indexer[key])
        for s in rest:
            got = numbers(got, s)
        return [list(got.shape), base64.b64encode(np.ascontiguousarray(got).astype("<i4").tobytes()).decode()]

    def write(self, op):
        with zarr.config.set({"array.write_empty_chunks": op["empty"]}):
            return self.write_elements(op)

    def write_elements(self, op):
        a, (first, *rest) = self.array(op), op["views"]
        value = np.array(op["values"], "i4").reshape(op["shape"]) if op["shape"] is not None else op["values"][0]
        if not rest:
            indexer, key = select(a, first, a.shape)
            indexer[key] = value
            return
        if not a.shape:
            a[...] = value
            return
        indexer, key = select(zarr_like(np.arange(a.size).reshape(a.shape), a), first, a.shape)
        number = np.asarray(indexer[key])
        for s in rest:
            number = numbers(number, s)
        last = dict(zip(number.ravel().tolist(), np.broadcast_to(value, number.shape).ravel().tolist(), strict=True))
        if last:
            a.vindex[np.unravel_index(list(last), a.shape)] = list(last.values())


def zarr_like(values: np.ndarray, like: zarr.Array) -> zarr.Array:
    """An array in memory with the chunks of another."""
    chunks = [list(axis) for axis in like.write_chunk_sizes] if all(like.shape) and like.shape else (1,) * like.ndim
    a = zarr.create_array({}, shape=values.shape, chunks=chunks, dtype=values.dtype)
    a[...] = values
    return a


def random_operation(rng: np.random.Generator, reference: Reference, version: int) -> dict:
    path = pick(rng, PATHS)
    arrays = [name for name, node in reference.members({"depth": 0}).items() if node != "group"]
    if arrays and chance(rng, 0.6):
        path = pick(rng, arrays)
        a = reference.array({"path": path})
        shape = a.shape
        # zarr-python appends to an array without axes by writing to it.
        match pick(rng, ["resize", "append" if shape else "read", "read", "read", "write", "write", "write", "stored"]):
            case "resize":
                return {"op": "resize", "path": path, "shape": random_extents(rng, a) + [1] * chance(rng, 0.03)}
            case "append":
                axis = int(rng.integers(0, max(len(shape), 1)))
                extent = [int(rng.integers(0, 4)) if i == axis else n for i, n in enumerate(shape)]
                if chance(rng, 0.05) and len(shape) > 1:
                    extent[(axis + 1) % len(shape)] += 1
                return {"op": "append", "path": path, "axis": axis, "shape": extent, "values": [int(v) for v in rng.integers(-3, 100, int(np.prod(extent)))]}
            case "stored":
                return {"op": "stored", "path": path}
            case "read":
                return {"op": "read", "path": path, "views": views(rng, reference, path, shape)}
            case "write":
                op = {"op": "write", "path": path, "views": views(rng, reference, path, shape), "empty": chance(rng, 0.2)}
                try:
                    extent = reference.read(op)[0]
                except Exception:
                    extent = []
                scalar = chance(rng, 0.3)
                op["shape"] = None if scalar else extent
                op["values"] = [int(v) for v in rng.integers(-3, 3, 1 if scalar else int(np.prod(extent)))]
                return op
    kind = pick(rng, ["create_group", "create_array", "create_array", "require_group", "require_array", "delete", "move", "contains", "consolidate", "members", "update_attributes", "set_attributes", "auto_chunks", "create_hierarchy", "open group", "open array"])
    op = {"op": kind, "path": path, "format": version}
    match kind:
        case "create_array" | "require_array" | "open array":
            op["array"] = random_array(rng, version)
        case "move":
            op["to"] = pick(rng, PATHS)
        case "members":
            op["depth"] = int(rng.integers(0, 3))
        case "auto_chunks":
            # Beyond these sizes zarr-python makes chunks of more than Blosc can hold.
            op["shape"] = [int(10 ** rng.uniform(0, 9 / n)) for n in [int(rng.integers(1, 5))] for _ in range(n)]
            op["sharded"] = version == 3 and chance(rng, 0.7)
            op["most"] = None if chance(rng, 0.5) else int(10 ** rng.uniform(4, 8))
        case "update_attributes" | "set_attributes":
            op["attributes"] = {pick(rng, ["x", "y"]): int(rng.integers(0, 9))}
        case "create_hierarchy":
            op["path"] = pick(rng, ["", path])
            op["nodes"] = {p: None if chance(rng, 0.5) else random_array(rng, version) for p in rng.choice(["e", "e/f", "g", "g/h/i"], rng.integers(1, 4), replace=False).tolist()}
    if kind.startswith("open"):
        op["mode"] = pick(rng, MODES)
    return op


def random_extents(rng: np.random.Generator, a: zarr.Array) -> list[int]:
    """A shape whose axes are longer, or end with a chunk.

    Within a chunk, elements outside of the shape are undefined: zarr-python keeps them or
    not, depending on how the chunk is written next.
    """
    out = []
    for n, sizes in zip(a.shape, a.write_chunk_sizes, strict=True):
        ends = [int(i) for i in np.cumsum([0, *sizes]) if i < n]
        out.append(n + int(rng.integers(0, 4)) if n > 20 or not ends or chance(rng, 0.5) and n < 10 else pick(rng, ends))
    return out


def views(rng: np.random.Generator, reference: Reference, path: str, shape: tuple) -> list[dict]:
    a = reference.array({"path": path})
    out = [random_selection(rng, shape, a._shard_grid_shape if a.shards else a.cdata_shape)]
    while chance(rng, 0.3):
        try:
            shape = tuple(reference.read({"path": path, "views": out})[0])
        except Exception:
            break
        out.append(random_selection(rng, shape))
    return out


def run(seed: int, number: int, operations: int, command: list[str], counts: Counter, verbose: bool, debug: bool) -> str:
    """Returns what differs in a sequence of operations, or nothing."""
    rng = np.random.default_rng([seed, number])
    version = 2 if number % 3 == 0 else 3
    with tempfile.TemporaryDirectory() as temporary:
        ours, theirs = Path(temporary) / "quiver", Path(temporary) / "python"
        for folder in (ours, theirs):
            zarr.create_group(folder, zarr_format=version)
        reference = Reference(theirs, version)
        with subprocess.Popen([*command, str(ours)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as quiver:
            for i in range(operations):
                op = random_operation(rng, reference, version)
                try:
                    want = {"result": reference.do(op)}
                except Exception as e:
                    want = {"error": f"{type(e).__name__}: {e}"}
                quiver.stdin.write(json.dumps(op) + "\n")
                quiver.stdin.flush()
                got = json.loads(quiver.stdout.readline())
                if op["op"] == "stored" and "result" in want:  # of the same files
                    want["result"].append(zarr.open_array(ours, path=op["path"], mode="r").nbytes_stored())
                counts[f"{op['op']}{' fails' if 'error' in got else ''}"] += 1
                if ("error" in got) != ("error" in want) or "error" not in got and not same(op, got["result"], want["result"]):
                    return f"sequence {seed}-{number} v{version}, operation {i} {json.dumps(op)}: zarr-python {want}, Quiver {got}"
                if debug and (fault := compare(ours, theirs)):
                    return f"after operation {i} {json.dumps(op)} ({got}): {fault}"
                if verbose and "error" in got:
                    print(f"{op['op']}: {got['error']} | {want['error'][:100]}")
            quiver.stdin.close()
        return compare(ours, theirs)


def same(op: dict, got, want) -> bool:
    # Quiver stores fewer chunks; see compare.
    return got == want if op["op"] != "stored" else (got[0], *got[2:]) == (want[0], *want[2:]) and got[1] <= want[1]


def compare(ours: Path, theirs: Path) -> str:
    """Returns what zarr-python sees to differ in two hierarchies, or nothing."""
    a, b = (dict(zarr.open_group(folder, mode="r", use_consolidated=False).members(max_depth=None)) for folder in (ours, theirs))
    if a.keys() != b.keys():
        return f"members {sorted(a)}, want {sorted(b)}"
    for name, node in a.items():
        if dict(node.attrs) != dict(b[name].attrs):
            return f"attributes of {name}"
        if hasattr(node, "shape") and not np.array_equal(node[...], b[name][...]):
            return f"elements of {name}"
        # zarr-python keeps elements outside of the shape when a chunk is written whole, so
        # that fewer chunks equal the fill value.
        if hasattr(node, "shape") and not chunk_files(ours / name) <= chunk_files(theirs / name):
            return f"chunks of {name}: {chunk_files(ours / name)}, want {chunk_files(theirs / name)}"
    return ""


def chunk_files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".z") and p.name != "zarr.json"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", help="print the errors")
    parser.add_argument("--each", action="store_true", help="compare the folders after each operation, which is slow")
    parser.add_argument("--sequences", type=int, default=40)
    parser.add_argument("--operations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=np.random.SeedSequence().entropy % 10**9, help="another one each time if absent")
    options = parser.parse_args()
    zarr.config.set({"array.rectilinear_chunks": True})
    counts, failed = Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        command = [f"{folder}/zarrops"]
        subprocess.run([os.environ.get("GO", "go"), "build", "-o", command[0], "./interop/zarrops"], cwd=ROOT, check=True)
        for i in range(options.sequences):
            fault = run(options.seed, i, options.operations, command, counts, options.v, options.each)
            failed += bool(fault)
            if fault:
                print(f"FAIL  {fault}")
    print(f"zarr: {options.sequences} sequences of operations of seed {options.seed}, {failed} failed; {dict(sorted(counts.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
