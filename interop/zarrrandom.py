"""Checks package zarr on random arrays of zarr-python, zarrs and tensorstore.

Each array has a random version of Zarr, type, shape of up to four axes, grid, order,
key encoding, fill value and list of codecs, and is written in part. Quiver must read
the elements that the writer reads, bit for bit. Then Quiver writes the array again with
the same metadata, and the writer must read the same metadata and elements from it.

Usage: zarrrandom.py [--arrays N] [--seed N] [--keep FOLDER] [-v]. It needs Go.
"""

import argparse
import json
import lzma
import math
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import ml_dtypes
import numcodecs
import numpy as np
import tensorstore
import zarr
import zarr.codecs.numcodecs as v3_numcodecs
from numcodecs.pcodec import PCodec
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ScaleOffset, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.dtype import VariableLengthBytes

from zarrmatrix import Case, STRINGS, ZARRS, check, copy_arrays, read_tensorstore, read_zarrs, same

UNITS = ["generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
BYTES = "variable-length bytes"
WORDS = ["", "a", "é", "日本", "🚀b", "xyz", "a\0b", "long " * 20]


def chance(rng: np.random.Generator, p: float) -> bool:
    return bool(rng.random() < p)


def pick(rng: np.random.Generator, items):
    return items[rng.integers(len(items))]


def random_type(rng: np.random.Generator, depth: int = 0):
    """A NumPy dtype, or BYTES."""
    kind = pick(rng, ["number"] * 8 + ["time"] * 2 + ["U", "S", "V"] + (["struct"] * 2 if depth < 2 else []) + (["T", BYTES] if depth == 0 else []))
    order = pick(rng, "<<>")
    match kind:
        case "number":
            return np.dtype(pick(rng, ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])).newbyteorder(order)
        case "time":
            unit = pick(rng, UNITS)
            step = "" if unit == "generic" else pick(rng, ["", "7", "25"])
            return np.dtype(f"{order}{pick(rng, 'Mm')}8" + (f"[{step}{unit}]" if unit != "generic" else ""))
        case "U":
            return np.dtype(f"{order}U{rng.integers(1, 9)}")
        case "S" | "V":
            return np.dtype(f"|{kind}{rng.integers(1, 9)}")
        case "struct":
            return np.dtype([(pick(rng, ["x", "é ", "a.b/"]) + str(i), random_type(rng, depth + 1)) for i in range(rng.integers(1, 5))])
        case "T":
            return STRINGS
    return kind


def random_elements(rng: np.random.Generator, dtype, shape: tuple) -> np.ndarray:
    """Elements with all bit patterns that the type has."""
    n = int(np.prod(shape))
    if dtype == BYTES:
        out = np.empty(n, object)
        out[:] = [rng.bytes(rng.integers(0, 6)) for _ in range(n)]
        return out.reshape(shape)
    if dtype.kind in "UT":
        return np.array([w.rstrip("\0") for w in rng.choice(WORDS, n)], dtype).reshape(shape)
    if dtype.kind == "S":
        return np.array([rng.bytes(rng.integers(0, dtype.itemsize + 1)) for _ in range(n)], dtype).reshape(shape)
    if dtype.names:
        out = np.empty(shape, dtype)
        for name in dtype.names:
            out[name] = random_elements(rng, dtype[name], shape)
        return out
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if chance(rng, 0.5) and dtype.kind in "iuf":
        return rng.integers(0, 100, shape).astype(dtype)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(shape).copy()


def random_fill(rng: np.random.Generator, dtype):
    if dtype == BYTES:
        return rng.bytes(rng.integers(0, 4))
    special = {"f": [np.nan, np.inf, -np.inf, -0.0, 1e-30], "c": [complex(np.nan, -np.inf), complex(-0.0, 1)], "M": ["NaT"], "m": ["NaT"]}
    if dtype.kind in special and chance(rng, 0.5):
        value = pick(rng, special[dtype.kind])
        return np.array(value, dtype)[()] if value != "NaT" else np.array(-(2**63), "i8").view(dtype.newbyteorder("="))[()]
    return random_elements(rng, dtype, (1,))[0]


def raw_lzma(rng: np.random.Generator) -> list:
    """The filters of a raw stream of LZMA2 or LZMA1."""
    kind = pick(rng, [lzma.FILTER_LZMA2, lzma.FILTER_LZMA1])
    how = pick(rng, [{"preset": 1}, {"dict_size": int(pick(rng, [4096, 5000, 1 << 17])), "lc": int(rng.integers(0, 3)), "lp": int(rng.integers(0, 3)), "pb": int(rng.integers(0, 5))}])
    return [*([{"id": lzma.FILTER_DELTA, "dist": int(rng.integers(1, 9))}] if chance(rng, 0.5) else []), {"id": kind, **how}]


def random_compressors(rng: np.random.Generator, version: int) -> tuple[list, list]:
    """Functions that return compressors, and ones that return checksums."""
    numcodec = numcodecs if version == 2 else v3_numcodecs
    gz = numcodecs.GZip if version == 2 else v3_numcodecs.GZip
    choices = [
        lambda: numcodec.Zlib(level=int(rng.integers(0, 10))), lambda: numcodec.BZ2(level=int(rng.integers(1, 10))), lambda: numcodec.LZMA(preset=int(rng.integers(0, 4))),
        lambda: numcodec.LZ4(acceleration=int(rng.integers(1, 5))), lambda: gz(level=int(rng.integers(0, 10))),
        lambda: numcodec.Zstd(level=int(rng.integers(-3, 10)), checksum=chance(rng, 0.5)),
        lambda: numcodec.Blosc(cname=pick(rng, ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]), clevel=int(rng.integers(0, 10)), shuffle=int(rng.integers(0, 3)), blocksize=int(pick(rng, [0, 0, 64, 1024]))),
        lambda: numcodec.LZMA(format=2) if version == 2 else v3_numcodecs.LZMA(),
        lambda: numcodec.LZMA(format=3, filters=raw_lzma(rng)),
    ]  # fmt: skip
    checksums = [lambda: numcodec.CRC32(**pick(rng, [{}, {"location": "end"}])), lambda: numcodec.Adler32(**pick(rng, [{}, {"location": "end"}])), lambda: numcodec.JenkinsLookup3(initval=int(rng.integers(0, 9)))]
    checksums += [lambda: numcodec.CRC32C(**pick(rng, [{}, {"location": "start"}])), lambda: numcodec.Fletcher32()]
    if version == 3:
        blosc = lambda: BloscCodec(cname=pick(rng, ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]), clevel=int(rng.integers(0, 10)), shuffle=pick(rng, ["noshuffle", "shuffle", "bitshuffle"]), blocksize=int(pick(rng, [0, 128])))
        choices += 3 * [blosc, lambda: ZstdCodec(level=int(rng.integers(-3, 12)), checksum=chance(rng, 0.5)), lambda: GzipCodec(level=int(rng.integers(0, 10)))]
        checksums += 3 * [Crc32cCodec]
    return choices, checksums


def random_v3(rng: np.random.Generator, dtype, shape: tuple, about: Counter) -> dict:
    """Arguments of zarr.create_array for version 3."""
    vlen = dtype == BYTES or dtype.kind == "T"
    size = 1 if vlen else dtype.itemsize
    choices, checksums = random_compressors(rng, 3)
    how = {}

    def compressors(of_elements: bool = True) -> list:
        out = [pick(rng, choices)() for _ in range(pick(rng, [0, 1, 1, 2]))]
        if chance(rng, 0.3):
            out.insert(rng.integers(len(out) + 1), pick(rng, checksums)())
        if of_elements and not vlen and chance(rng, 0.2):
            out.insert(0, v3_numcodecs.Shuffle(elementsize=size))
        return out

    def serializer():
        return "auto" if vlen else BytesCodec(endian=pick(rng, ["little", "big"]) if size > 1 else None)

    def filters() -> list:
        out = []
        if chance(rng, 0.4) and shape:
            out.append(TransposeCodec(order=tuple(int(i) for i in rng.permutation(len(shape)))))
        if not vlen and dtype.kind in "iu" and chance(rng, 0.2):
            out.append(v3_numcodecs.Delta(dtype=dtype.newbyteorder("<").str))
        if not vlen and dtype.kind == "f" and dtype.itemsize > 2 and chance(rng, 0.2):
            t = dtype.newbyteorder("<").str
            out.append(pick(rng, [v3_numcodecs.BitRound(keepbits=int(rng.integers(1, 24))), v3_numcodecs.AsType(encode_dtype="<f8", decode_dtype=t), v3_numcodecs.Quantize(digits=int(rng.integers(0, 5)), dtype=t)]))
        return out

    chunks = tuple(int(rng.integers(1, n + 3)) for n in shape)
    form = pick(rng, ["regular", "regular", "sharded", "nested", "rectilinear", "rectilinear shards"])
    if not all(shape) and form.startswith("rectilinear"):
        form = "regular"
    grid = [edges(rng, n) for n in shape]
    if form in ("sharded", "nested", "rectilinear shards"):
        inner = tuple(math.gcd(*axis) for axis in grid) if form == "rectilinear shards" else chunks
        codec = None
        for _ in range(2 if form == "nested" else 1):
            codecs = [*filters(), codec] if codec and chance(rng, 0.9) else [*([] if codec else filters()), *([codec] if codec else [VLEN[dtype == BYTES]() if vlen else serializer()])]
            index = [BytesCodec(endian=pick(rng, ["little", "big"])), *([Crc32cCodec()] if chance(rng, 0.7) else [])]
            if not codec or chance(rng, 0.2):
                codecs += compressors(not codec)
            codec = ShardingCodec(chunk_shape=inner, codecs=codecs, index_codecs=index, index_location=pick(rng, ["start", "end"]))
            inner = tuple(int(n * rng.integers(1, 4)) for n in inner)
        how |= {"chunks": grid if form == "rectilinear shards" and shape else inner, "serializer": codec, "compressors": compressors(False) if chance(rng, 0.2) else None, "filters": None}
    else:
        how["chunks"] = grid if form == "rectilinear" and shape else chunks
        how |= {"compressors": compressors() or None, "filters": filters() or None, "serializer": serializer()}
    about[form] += 1
    if chance(rng, 0.3):
        how["chunk_key_encoding"] = {"name": pick(rng, ["default", "v2"]), "separator": pick(rng, "/.")}
    if chance(rng, 0.3):
        how["dimension_names"] = [pick(rng, [None, "x", "é"]) for _ in shape]
    return how


def vlen_codecs() -> dict:
    from zarr.codecs import VLenBytesCodec, VLenUTF8Codec

    return {True: VLenBytesCodec, False: VLenUTF8Codec}


VLEN = vlen_codecs()


def edges(rng: np.random.Generator, n: int) -> list[int]:
    """Random extents of chunks whose sum is n."""
    out = []
    while sum(out) < n:
        out += [int(rng.integers(1, n - sum(out) + 1))]
    return out


def random_v2(rng: np.random.Generator, dtype, shape: tuple) -> dict:
    """Arguments of zarr.create_array for version 2."""
    vlen = dtype == BYTES or dtype.kind == "T"
    choices, checksums = random_compressors(rng, 2)
    filters = []
    if not vlen and dtype.kind in "iuf" and chance(rng, 0.3):
        filters.append(numcodecs.Delta(dtype=dtype.str) if dtype.kind != "f" else numcodecs.AsType(encode_dtype=dtype.str, decode_dtype=dtype.str))
    if dtype != BYTES and dtype.kind == "b" and chance(rng, 0.3):
        filters.append(numcodecs.PackBits())
    if not vlen and chance(rng, 0.3):
        filters += [pick(rng, [numcodecs.Shuffle(elementsize=1 if filters and dtype.kind == "b" else dtype.itemsize), *(c() for c in checksums)])]
    how = {"order": pick(rng, "CF"), "chunk_key_encoding": {"name": "v2", "separator": pick(rng, "/.")}, "filters": filters or (None if not vlen else "auto"), "compressors": pick(rng, [None, pick(rng, choices)()])}
    how["chunks"] = tuple(int(rng.integers(1, n + 3)) for n in shape)
    return how


def random_shape(rng: np.random.Generator) -> tuple:
    ndim = pick(rng, [0, 1, 1, 2, 2, 2, 3, 3, 4])
    return tuple(int(rng.integers(0 if chance(rng, 0.05) else 1, 30 if ndim == 1 else 9)) for _ in range(ndim))


def write_zarrs(folder: Path, name: str, rng: np.random.Generator, refused: dict, about: Counter) -> Case | None:
    """An array of zarr-python, encoded by zarrs."""
    dtype, shape = np.dtype(pick(rng, ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", STRINGS])), random_shape(rng)
    compressors = [lambda: ZstdCodec(level=int(rng.integers(-3, 12)), checksum=chance(rng, 0.5)), lambda: GzipCodec(level=int(rng.integers(0, 10))), lambda: BloscCodec(cname=pick(rng, ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]), clevel=int(rng.integers(0, 10)), shuffle=pick(rng, ["noshuffle", "shuffle", "bitshuffle"]))]
    chunks = tuple(int(rng.integers(1, n + 3)) for n in shape)
    # zarrs fails to read small blosc chunks of compressed bytes, also its own.
    how = {"chunks": chunks, "compressors": [*([pick(rng, compressors)()] if chance(rng, 0.8) else []), *([Crc32cCodec()] if chance(rng, 0.4) else [])] or None}
    if chance(rng, 0.4):
        how["shards"] = tuple(int(n * rng.integers(1, 4)) for n in chunks)
    elif chance(rng, 0.4) and shape:
        how["filters"] = TransposeCodec(order=tuple(int(i) for i in rng.permutation(len(shape))))
    with zarr.config.set(ZARRS):
        a = zarr.create_array(folder / name, shape=shape, dtype=dtype, fill_value=random_fill(rng, dtype), config={"write_empty_chunks": chance(rng, 0.3)}, **how)
        part = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) if chance(rng, 0.3) else slice(None) for n in shape)
        a[part if shape else ...] = random_elements(rng, dtype, np.empty(shape, "V0")[part].shape if shape else ())
    about["zarrs"] += 1
    want, readers = read(folder / name), [read]
    try:
        if same(read_zarrs(folder / name), want):
            readers.append(read_zarrs)
    except AttributeError:  # text without axes
        about["zarrs cannot read"] += 1
    return Case(want, readers)


TENSORSTORE = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int2", "int4"]
TENSORSTORE += ["float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def write_tensorstore(folder: Path, name: str, rng: np.random.Generator, refused: dict, about: Counter) -> Case | None:
    label, shape = pick(rng, TENSORSTORE), random_shape(rng)
    dtype = np.dtype(getattr(ml_dtypes, label) if hasattr(ml_dtypes, label) else label)
    n = math.prod(shape)
    if label in ("int2", "int4"):
        high = 2 if label == "int2" else 8
        values = rng.integers(-high, high, shape).astype(dtype)
    else:
        values = rng.integers(0, 2, shape).astype(bool) if label == "bool" else np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(shape)
    chunks = [int(rng.integers(1, n + 3)) for n in shape]
    version = pick(rng, [2, 3, 3])
    blosc = {"cname": pick(rng, ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]), "clevel": int(rng.integers(0, 10))}
    if version == 2:
        metadata = {"shape": shape, "chunks": chunks, "order": pick(rng, "CF" if len(shape) > 1 else "C"), "dtype": label if hasattr(ml_dtypes, label) else dtype.newbyteorder(pick(rng, "<>")).str}
        metadata["compressor"] = pick(rng, [None, {"id": "zlib", "level": 1}, {"id": "blosc", "shuffle": int(rng.integers(-1, 3)), **blosc}, {"id": "zstd", "level": 3}, {"id": "bz2", "level": 1}])
        metadata["dimension_separator"] = pick(rng, "/.")
        if chance(rng, 0.4):
            metadata["fill_value"] = None
    else:

        def codecs() -> list:
            out = [{"name": "transpose", "configuration": {"order": [int(i) for i in rng.permutation(len(shape))]}}] if chance(rng, 0.4) else []
            out += [{"name": "bytes", "configuration": {"endian": pick(rng, ["little", "big"])}}]
            after = [{"name": "gzip", "configuration": {"level": 3}}, {"name": "zstd", "configuration": {"level": int(rng.integers(-3, 9))}}, {"name": "crc32c"}]
            after += [{"name": "blosc", "configuration": {"shuffle": pick(rng, ["noshuffle", "shuffle", "bitshuffle"]), **blosc}}]
            return out + [pick(rng, after) for _ in range(pick(rng, [0, 1, 1, 2]))]

        list_of, extent = codecs(), chunks
        for _ in range(pick(rng, [0, 0, 1, 2])):
            configuration = {"chunk_shape": extent, "codecs": list_of, "index_location": pick(rng, ["start", "end"])}
            configuration["index_codecs"] = [{"name": "bytes", "configuration": {"endian": pick(rng, ["little", "big"])}}, *([{"name": "crc32c"}] if chance(rng, 0.7) else [])]
            list_of, extent = [{"name": "sharding_indexed", "configuration": configuration}], [int(n * rng.integers(1, 4)) for n in extent]
        metadata = {"shape": shape, "data_type": label, "codecs": list_of, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": extent}}}
        metadata["chunk_key_encoding"] = {"name": pick(rng, ["default", "v2"]), "configuration": {"separator": pick(rng, "/.")}}
    spec = {"driver": "zarr3" if version == 3 else "zarr", "kvstore": {"driver": "file", "path": f"{folder / name}/"}, "metadata": metadata}
    if chance(rng, 0.5) and "fill_value" not in metadata and label != "float8_e8m0fnu":  # tensorstore has other numbers
        metadata["fill_value"] = {"b": True, "c": [1.5, "-Infinity" if version == 3 else 0.0]}.get(dtype.kind, 1)
    try:
        a = tensorstore.open(spec, create=True).result()
        part = tuple(slice(*sorted(int(i) for i in rng.integers(0, n + 1, 2))) if chance(rng, 0.3) else slice(0, n) for n in shape)
        a[part].write(values[part]).result()
    except ValueError as e:
        refused[name] = f"tensorstore {label}: {e}"
        shutil.rmtree(folder / name, ignore_errors=True)
        return None
    about[f"tensorstore v{version}"] += 1
    again = read_tensorstore(spec["driver"])
    return Case(again(folder / name), [again])


def read(path: Path) -> np.ndarray:
    a = zarr.open_array(path, mode="r")
    values = a[...]  # text of no axes is a Python object
    return np.array(values, object if type(values) is bytes else a.dtype)


def write_zarr_python(folder: Path, name: str, rng: np.random.Generator, refused: dict, about: Counter) -> Case | None:
    dtype, shape, version = random_type(rng), random_shape(rng), pick(rng, [2, 3, 3])
    how = random_v2(rng, dtype, shape) if version == 2 else random_v3(rng, dtype, shape, about)
    if version == 2 and chance(rng, 0.2):
        fill = None
    else:
        fill = random_fill(rng, dtype)
    attributes = {"é": [1, {"n": float("nan")}, -float("inf")], "x": None} if chance(rng, 0.2) else {}
    config = {"write_empty_chunks": chance(rng, 0.3)}
    try:
        a = zarr.create_array(folder / name, shape=shape, dtype=VariableLengthBytes() if dtype == BYTES else dtype, fill_value=fill, zarr_format=version, attributes=attributes, config=config, **how)
        part = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) if chance(rng, 0.5) else slice(None) for n in shape)
        if not shape or chance(rng, 0.9):
            extent = np.empty(shape, "V0")[part].shape if shape else ()
            a[part if shape else ...] = random_elements(rng, dtype, extent)
        want = read(folder / name)  # an array that is open has a byte order, which v3 does not store
    except Exception as e:
        refused[name] = f"{type(e).__name__}: {e} ({dtype} {shape} v{version} {how})"
        shutil.rmtree(folder / name, ignore_errors=True)
        return None
    about[f"v{version}"] += 1
    about["empty" if 0 in shape else f"{len(shape)} axes"] += 1
    about["bytes" if dtype == BYTES else {"V": "struct" if dtype.names else "V"}.get(dtype.kind, dtype.kind)] += 1
    return Case(want, [read])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", help="print every array")
    parser.add_argument("--arrays", type=int, default=500)
    parser.add_argument("--seed", type=int, default=np.random.SeedSequence().entropy % 10**9, help="another one each time if absent")
    parser.add_argument("--keep", type=Path, help="a folder for the arrays")
    options = parser.parse_args()
    zarr.config.set({"array.rectilinear_chunks": True})
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        source, copy, raw = (folder / name for name in ("source", "copy", "elements"))
        raw.mkdir(parents=True, exist_ok=True)
        cases, refused, about = {}, {}, Counter()
        for i in range(options.arrays):
            rng = np.random.default_rng([options.seed, i])
            name = f"{options.seed}-{i}"
            write = pick(rng, [write_zarr_python] * 3 + [write_zarrs, write_tensorstore])
            if case := write(source, name, rng, refused, about):
                cases[name] = case
        errors = copy_arrays(source, copy, raw)
        failed = 0
        for name, case in cases.items():
            fault = check(name, case, errors.get(name, "not listed"), raw, copy) or (case.readers[0] is read and check_metadata(source / name, copy / name))
            failed += bool(fault)
            if fault or options.v:
                print(f"{'FAIL' if fault else 'ok  '}  {name}{f': {fault}' if fault else ''}")
    if options.v:
        for name, error in refused.items():
            print(f"none  {name}: {error}")
    print(f"zarr: {len(cases)} random arrays of seed {options.seed}, {failed} failed; {len(refused)} could not be written; {dict(sorted(about.items()))}")
    return 1 if failed else 0


def check_metadata(source: Path, copy: Path) -> str:
    """Returns the difference that zarr-python sees between two arrays, or nothing.

    Codecs are not compared, since their parameters may be written in several ways.
    Quiver writes floats of attributes that JSON lacks as text.
    """

    def comparable(path: Path) -> dict[str, str]:
        m = zarr.open_array(path, mode="r").metadata.to_dict()
        return {key: str(value).replace("nan", "'NaN'").replace("-inf", "'-Infinity'") for key, value in m.items() if key not in ("codecs", "filters", "compressor", "order")}

    a, b = comparable(source), comparable(copy)
    a["attributes"], b["attributes"] = sorted(a["attributes"]), sorted(b["attributes"])
    return "; ".join(f"{key} {a.get(key)} became {b.get(key)}" for key in {*a, *b} if a.get(key) != b.get(key))


if __name__ == "__main__":
    sys.exit(main())
