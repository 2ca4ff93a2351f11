"""Checks package zarr against zarr-python, tensorstore and zarrs, type by type.

Each of them writes arrays of all its data types with many codecs, in Zarr v2 and v3.
Quiver must read the same elements, bit for bit. Then it writes each array again with
the same metadata, and its writer must read the same elements from that copy; so must
zarrs and tensorstore where they have the type. Hierarchies are copied likewise. Of the
arrays of Zarr v2 that v3 can express, the writer must also read what Quiver migrates.

Usage: zarrmatrix.py [-v]. It needs Go.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numcodecs
import numpy as np
import tensorstore
import zarr
import zarr.codecs.numcodecs as v3_numcodecs
from numcodecs.pcodec import PCodec
from numcodecs.zfpy import ZFPY
from zarr.abc.codec import ArrayArrayCodec
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.registry import register_codec

warnings.filterwarnings("ignore")  # zarr-python warns of types and codecs without a specification

ROOT = Path(__file__).resolve().parent.parent
SHAPE, CHUNK, SHARD = (11, 7), (3, 2), (6, 4)
WRITTEN = 8  # rows; the others have the fill value

RECORD = np.dtype([("a", "i2"), ("b", "f8"), ("c", [("d", "u1"), ("e", "U2")]), ("t", "M8[s]"), ("ok", "?")])
NUMBERS = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
# numcodecs has no buffers of records with times.
PAIR = np.dtype([("x", "u2"), ("y", [("s", "S3"), ("z", "c8")])])
TIMES = ["M8[ns]", "M8[25us]", "M8[D]", "m8[ms]", "m8[3h]"]
TYPES = [np.dtype(t) for t in [*NUMBERS, *TIMES, "U3", "S5", "V4", RECORD, PAIR]]
STRINGS = np.dtypes.StringDType()

LEAST = 800  # arrays that the other implementations must manage to write

ZARRS = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}


@dataclass
class Case:
    """An array, and how implementations read its copy."""

    want: np.ndarray
    readers: list[Callable[[Path], np.ndarray]]


def elements(rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    """Random elements with all bit patterns that the type has."""
    n = SHAPE[0] * SHAPE[1]
    if dtype == STRINGS or dtype.kind == "U":
        words = ["", "a", "é", "日本", "🚀b", "xyz"]
        return np.array(rng.choice(words, n), dtype).reshape(SHAPE)
    if dtype.kind == "S":
        return np.array([rng.bytes(rng.integers(0, dtype.itemsize + 1)).replace(b"\0", b"x") for _ in range(n)], dtype).reshape(SHAPE)
    if dtype.names:
        out = np.empty(SHAPE, dtype)
        for name in dtype.names:
            out[name] = elements(rng, dtype[name])
        return out
    if dtype.kind == "b":
        return rng.integers(0, 2, SHAPE).astype(bool)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(SHAPE).copy()


def fill_of(dtype: np.dtype):
    """A fill value other than the default."""
    match dtype.kind:
        case "b":
            return True
        case "i" | "u":
            return 7
        case "f":
            return np.nan
        case "c":
            return complex(1.5, -2)
        case "M" | "m":
            return np.array(12345, "i8").view(dtype)[()]
        case "U" | "T":
            return "né"
        case "S":
            return b"ab"
    return np.frombuffer(bytes(range(65, 65 + dtype.itemsize)), dtype)[0] if dtype.kind == "V" and not dtype.names else np.zeros((), dtype)[()]


def expected(values: np.ndarray, fill) -> np.ndarray:
    out = np.full(SHAPE, fill, values.dtype)
    out[:WRITTEN] = values[:WRITTEN]
    return out


def same(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape == want.shape and plain(got) == plain(want)


def plain(a: np.ndarray) -> bytes | list:
    """The elements in the layout of Quiver: little-endian bytes, or a list of text."""
    if a.dtype == STRINGS or a.dtype.kind == "O":
        return [x.encode() if isinstance(x, str) else bytes(x) for x in a.ravel().tolist()]
    if a.dtype in (ml_dtypes.int2, ml_dtypes.int4):
        a = a.astype("i1")
    if a.dtype.kind in "Mm":
        a = a.view(a.dtype.byteorder + "i8")  # NumPy does not swap the bytes of times without a unit
    if a.dtype.type.__module__ != "ml_dtypes":
        a = a.astype(a.dtype.newbyteorder("<"))
    return np.ascontiguousarray(a).tobytes()


def read_zarr_python(path: Path) -> np.ndarray:
    return zarr.open_array(path, mode="r")[...]


def read_zarrs(path: Path) -> np.ndarray:
    with zarr.config.set(ZARRS):
        return zarr.open_array(path, mode="r")[...]


def read_tensorstore(driver: str) -> Callable[[Path], np.ndarray]:
    def read(path: Path) -> np.ndarray:
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
        return tensorstore.open(spec, read=True).result().read().result()

    return read


def v3_codecs(dtype: np.dtype) -> dict[str, dict]:
    """Arguments of create_array by name."""
    cases = {
        "plain": {"compressors": None},
        "zstd": {"compressors": ZstdCodec(level=3, checksum=True)},
        "gzip": {"compressors": GzipCodec(level=5)},
        "crc32c": {"compressors": [ZstdCodec(), Crc32cCodec()]},
        "sharded": {"shards": SHARD, "compressors": ZstdCodec()},
        "transpose": {"filters": TransposeCodec(order=(1, 0)), "compressors": GzipCodec(level=1)},
        "v2 keys": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    }
    if dtype.kind == "T":
        return cases
    cases |= {f"blosc {c} {s}": {"compressors": BloscCodec(cname=c, shuffle=s)} for c, s in [("lz4", "shuffle"), ("zstd", "bitshuffle"), ("blosclz", "noshuffle")]}
    cases |= {name: {"compressors": codec} for name, codec in {
        "zlib": v3_numcodecs.Zlib(level=2), "bz2": v3_numcodecs.BZ2(), "lzma": v3_numcodecs.LZMA(), "lz4": v3_numcodecs.LZ4(),
        "adler32": v3_numcodecs.Adler32(), "fletcher32": v3_numcodecs.Fletcher32(), "shuffle": v3_numcodecs.Shuffle(elementsize=max(dtype.itemsize, 1)),
    }.items()}  # fmt: skip
    if dtype.itemsize > 1:
        cases["big"] = {"serializer": BytesCodec(endian="big"), "compressors": None}
    return cases


def v2_codecs(dtype: np.dtype) -> dict[str, dict]:
    cases = {
        "plain": {"compressors": None},
        "default": {},
        "F": {"order": "F"},
        "slash": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "zlib": {"compressors": numcodecs.Zlib()},
        "gzip": {"compressors": numcodecs.GZip()},
        "bz2": {"compressors": numcodecs.BZ2()},
        "lzma": {"compressors": numcodecs.LZMA()},
        "lzma raw": {"compressors": numcodecs.LZMA(format=3, filters=[{"id": 3, "dist": max(dtype.itemsize, 1)}, {"id": 33, "preset": 1}])},
        "lz4": {"compressors": numcodecs.LZ4()},
    }
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (-1, 0, 1, 2):
            cases[f"blosc {cname} {shuffle}"] = {"compressors": numcodecs.Blosc(cname=cname, shuffle=shuffle)}
    if dtype.kind in "iu":
        cases["delta"] = {"filters": [numcodecs.Delta(dtype=dtype)]}
        cases["delta shuffle"] = {"filters": [numcodecs.Delta(dtype=dtype), numcodecs.Shuffle(elementsize=dtype.itemsize)], "compressors": None}
    return cases


def write_zarr_python(source: Path, rng: np.random.Generator, refused: dict[str, Exception]) -> dict[str, Case]:
    """Arrays that zarr-python writes, and some with the codecs of zarrs.

    Arrays that it fails to write are in refused.
    """
    cases = {}

    def write(name: str, values: np.ndarray, readers: list, **how) -> None:
        fill = fill_of(values.dtype)
        try:
            a = zarr.create_array(source / name, shape=SHAPE, chunks=CHUNK, dtype=values.dtype, fill_value=fill, **how)
            a[:WRITTEN] = values[:WRITTEN]
        except (TypeError, ValueError) as e:
            refused[name] = e  # numcodecs has no buffers of datetime64, for example
            shutil.rmtree(source / name, ignore_errors=True)
            return
        cases[name] = Case(expected(values, fill), readers)

    for dtype in [*TYPES, STRINGS]:
        label = {RECORD: "struct", PAIR: "pair", STRINGS: "string"}.get(dtype, dtype.str[1:])
        values = elements(rng, dtype)
        zarrs_has = dtype.kind in "biuf" or dtype == STRINGS
        for codec, how in v3_codecs(dtype).items():
            also = [read_zarrs] if zarrs_has and codec in ("plain", "zstd", "gzip", "crc32c", "sharded", "transpose") else []
            write(f"v3 {label} {codec}", values, [read_zarr_python, *also], **how)
        for codec, how in v2_codecs(dtype).items():
            if dtype.kind == "T" and codec not in ("plain", "default", "F", "zlib", "blosc lz4 1"):
                continue
            write(f"v2 {label} {codec}", values, [read_zarr_python], zarr_format=2, **how)
        if (dtype.kind in "iufcMmU" or dtype == PAIR) and dtype.itemsize > 1:
            write(f"v2 {label} big", values.astype(dtype.newbyteorder(">")), [read_zarr_python], zarr_format=2)
        if zarrs_has:
            with zarr.config.set(ZARRS):
                for codec in ("zstd", "sharded", "transpose"):
                    write(f"zarrs {label} {codec}", values, [read_zarr_python, read_zarrs], **v3_codecs(dtype)[codec])
    for shape, codec in (((), "zstd"), ((0, 3), "gzip")):
        for version in (2, 3):
            name = f"v{version} shape {len(shape)}"
            a = zarr.create_array(source / name, shape=shape, chunks=tuple(max(n, 1) for n in shape), dtype="i4", zarr_format=version)
            a[...] = 5
            cases[name] = Case(np.full(shape, 5, "i4"), [read_zarr_python])
    return cases


class Squeeze(ArrayArrayCodec):
    """Lets zarr-python accept the metadata of zarrs.squeeze, which zarrs encodes and decodes."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict) -> "Squeeze":
        return cls()

    def to_dict(self) -> dict:
        return {"name": "zarrs.squeeze", "configuration": {}}

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec) -> int:
        return input_byte_length

    async def _decode_single(self, chunk_data, chunk_spec):
        raise NotImplementedError

    async def _encode_single(self, chunk_data, chunk_spec):
        raise NotImplementedError


def write_squeeze(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Arrays whose chunks have axes of one element, with a codec of zarrs."""
    register_codec("zarrs.squeeze", Squeeze)
    cases = {}
    with zarr.config.set(ZARRS):
        for chunks in (CHUNK, (3, 1), (1, 7), (1, 1)):
            name, values = f"zarrs squeeze {chunks[0]} {chunks[1]}", elements(rng, np.dtype("f4"))
            zarr.create_array(source / name, shape=SHAPE, chunks=chunks, dtype="f4", filters=[Squeeze()])[...] = values
            cases[name] = Case(values, [read_zarrs])
    return cases


def write_filters(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Arrays with filters of numcodecs, some of which lose digits: zarr-python says what remains."""
    cases = {}

    def write(name: str, values: np.ndarray, version: int, filters: list) -> None:
        compressors = {"compressors": None} if version == 2 else {}
        a = zarr.create_array(source / name, shape=SHAPE, chunks=CHUNK, dtype=values.dtype, filters=filters, zarr_format=version, **compressors)
        a[...] = values
        cases[name] = Case(a[...], [read_zarr_python])

    for t in ("i2", "i4", "u8", "f4", "f8"):
        values = rng.integers(0, 1000, SHAPE).astype(t)
        write(f"v2 filters delta {t}", values, 2, [numcodecs.Delta(dtype=f"<{t}")])
        write(f"v3 filters delta {t}", values, 3, [v3_numcodecs.Delta(dtype=f"<{t}")])
    for t in ("f4", "f8"):
        values = rng.normal(size=SHAPE).astype(t)
        for name, config in {
            "BitRound": {"keepbits": 7}, "Quantize": {"digits": 3, "dtype": f"<{t}"},
            "FixedScaleOffset": {"offset": -5, "scale": 1000, "dtype": f"<{t}", "astype": "<i4"}, "AsType": {"encode_dtype": "<f4", "decode_dtype": f"<{t}"},
        }.items():  # fmt: skip
            write(f"v2 filters {name} {t}", values, 2, [getattr(numcodecs, name)(**config)])
            write(f"v3 filters {name} {t}", values, 3, [getattr(v3_numcodecs, name)(**config)])
    write("v2 filters packbits", elements(rng, np.dtype("bool")), 2, [numcodecs.PackBits()])
    near = (100 + np.cumsum(rng.integers(-1, 2, SHAPE[0] * SHAPE[1]))).astype("u2").reshape(SHAPE)
    write("v2 filters delta signed", near, 2, [numcodecs.Delta(dtype="<u2", astype="|i1")])
    for t, filters in (
        ("<i4", [numcodecs.Delta(dtype=">i4")]), (">i4", [numcodecs.Delta(dtype="<i4")]), (">i4", [numcodecs.Delta(dtype="|u1")]), (">f4", [numcodecs.AsType(">f8", ">f4")]),
        ("<f8", [numcodecs.AsType(">f4", "<f8"), numcodecs.Delta(dtype="<f4")]), ("<i4", [numcodecs.Delta(dtype=">i8")]), ("<c8", [numcodecs.Delta(dtype=">i8")]), (">c8", [numcodecs.Delta(dtype="<i8")]), (">i4", [numcodecs.AsType(">i4", "<i2"), numcodecs.Delta(dtype="<i8")]),
        ("<i4", [numcodecs.Shuffle(elementsize=4), numcodecs.Delta(dtype=">i2")]), (">i4", [numcodecs.Adler32(), numcodecs.FixedScaleOffset(1, 1, "|u1", "<i2")]),
        ("<f4", [numcodecs.Delta(dtype="<f4"), numcodecs.Shuffle(elementsize=4), numcodecs.AsType(">i8", "<u2"), numcodecs.Zlib()]),
        ("<i4", [numcodecs.Delta(dtype="<i4"), numcodecs.Zlib(), numcodecs.Delta(dtype="|u1"), numcodecs.BZ2(), numcodecs.AsType("<i2", "|i1"), numcodecs.Shuffle(elementsize=2)]),
    ):  # fmt: skip
        write(f"v2 filters orders {t} {len(cases)}", rng.integers(0, 100, SHAPE).astype(t), 2, filters)
    write("v3 filters orders", rng.integers(0, 100, SHAPE).astype("i4"), 3, [v3_numcodecs.Delta(dtype="<i4", astype=">i8")])
    return cases


def write_webassembly(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Arrays with the codecs that Quiver runs as WebAssembly. zfp's are without loss, since
    Quiver's copy is encoded a second time."""
    cases = {}
    for t in ("u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "M8[s]", "m8[3h]"):
        values = np.cumsum(rng.integers(-50, 60, SHAPE), axis=1).astype(t)
        codecs = {"pcodec": (PCodec(), v3_numcodecs.PCodec()), "pcodec delta": (PCodec(level=3, delta_spec="try_consecutive", delta_encoding_order=1), v3_numcodecs.PCodec(level=3, mode_spec="classic"))}
        if t in ("i4", "i8", "f4", "f8", "M8[s]", "m8[3h]"):
            codecs["zfpy"] = (ZFPY(), v3_numcodecs.ZFPY(mode=4, tolerance=-1))
        for name, (v2, v3) in codecs.items():
            for version, how in ((2, {"compressors": v2}), (3, {"serializer": v3, "compressors": None})):
                a = zarr.create_array(source / f"v{version} {name} {t}", shape=SHAPE, chunks=CHUNK, dtype=values.dtype, zarr_format=version, **how)
                a[...] = values
                cases[f"v{version} {name} {t}"] = Case(values, [read_zarr_python])
    return cases


SMALL = ["int2", "int4", "float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16"]


def write_tensorstore(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Arrays that tensorstore writes, of the types that zarr-python lacks and a few others."""
    cases = {}
    for label in [*SMALL, "int32", "complex64", "complex128"]:
        dtype = np.dtype(getattr(ml_dtypes, label)) if label in SMALL else np.dtype(label)
        if label in ("int2", "int4", "float4_e2m1fn"):
            values = rng.integers(*((-2, 2) if label == "int2" else (-8, 8)), SHAPE).astype(dtype)
        else:
            values = np.frombuffer(rng.bytes(SHAPE[0] * SHAPE[1] * dtype.itemsize), dtype).reshape(SHAPE)
        little = [{"name": "bytes", "configuration": {"endian": "little"}}]
        big = [{"name": "bytes", "configuration": {"endian": "big"}}]
        shard = {"name": "sharding_indexed", "configuration": {"chunk_shape": list(CHUNK), "codecs": [*little, {"name": "zstd", "configuration": {"level": 1}}]}}
        for codec, codecs in {
            "plain": little, "big": big, "sharded": [shard], "transpose": [{"name": "transpose", "configuration": {"order": [1, 0]}}, *little],
            "blosc": [*little, {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "bitshuffle"}}],
        }.items():  # fmt: skip
            chunk = SHARD if codec == "sharded" else CHUNK
            spec = {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": f"{source / f'tensorstore {label} {codec}'}/"},
                "metadata": {"shape": SHAPE, "data_type": label, "codecs": codecs, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}},
            }
            tensorstore.open(spec, create=True).result().write(values).result()
            cases[f"tensorstore {label} {codec}"] = Case(values, [read_tensorstore("zarr3")])
        if label.startswith("float4"):
            continue  # not in Zarr v2
        for order in "CF":
            name = f"tensorstore v2 {label} {order}"
            metadata = {"shape": SHAPE, "chunks": CHUNK, "order": order, "compressor": {"id": "zlib", "level": 1}}
            metadata["dtype"] = label if label in SMALL else dtype.newbyteorder(">").str
            spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{source / name}/"}, "metadata": metadata}
            tensorstore.open(spec, create=True).result().write(values).result()
            cases[name] = Case(values, [read_tensorstore("zarr")])
    return cases


FIELDS = np.dtype([("a", "i2"), ("b", "f8"), ("c", "c8")])


def read_tensorstore_fields(path: Path) -> np.ndarray:
    out = np.empty(SHAPE, FIELDS)
    for field in FIELDS.names:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}, "field": field}
        out[field] = tensorstore.open(spec, read=True).result().read().result()
    return out


def write_tensorstore_structs(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Structs, which tensorstore writes field by field."""
    cases = {}
    fields = [{"name": name, "data_type": FIELDS[name].name} for name in FIELDS.names]
    for endian in ("little", "big"):
        name, values = f"tensorstore struct {endian}", elements(rng, FIELDS)
        metadata = {"shape": SHAPE, "data_type": {"name": "struct", "configuration": {"fields": fields}}}
        metadata |= {"codecs": [{"name": "bytes", "configuration": {"endian": endian}}], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}}}
        for field in FIELDS.names:
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{source / name}/"}, "field": field, "metadata": metadata}
            tensorstore.open(spec, create=True, open=True).result().write(values[field]).result()
        cases[name] = Case(values, [read_tensorstore_fields, read_zarr_python])
    return cases


def objects(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Elements of dtype object: text, or arrays of one axis."""
    values = np.empty(SHAPE, object)
    for at in np.ndindex(SHAPE):
        if kind == "text":
            values[at] = str(rng.choice(["", "a", "é", "日本", "xyz"]))
        else:
            values[at] = rng.integers(0, 100, rng.integers(0, 5)).astype(kind)
    return values


def read_objects(path: Path) -> np.ndarray:
    """Reads a Zarr v2 array of objects as zarr-python 2 did."""
    meta = json.loads((path / ".zarray").read_text())
    filters, compressor = [numcodecs.get_codec(c) for c in meta["filters"]], meta["compressor"]
    out = np.full(SHAPE, meta["fill_value"] or "", object)
    for chunk in np.ndindex(*[-(-n // c) for n, c in zip(SHAPE, CHUNK, strict=True)]):
        file = path / ".".join(map(str, chunk))
        if not file.exists():
            continue  # of fill values
        raw = file.read_bytes()
        values = numcodecs.get_codec(compressor).decode(raw) if compressor else raw
        for f in reversed(filters):
            values = f.decode(values)
        part = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(chunk, CHUNK, SHAPE, strict=True))
        out[part] = np.asarray(values, object).reshape(CHUNK)[tuple(slice(0, s.stop - s.start) for s in part)]
    return plain_arrays(out)


def plain_arrays(values: np.ndarray) -> np.ndarray:
    """Elements that are arrays as little-endian bytes."""
    out = np.empty(values.shape, object)
    for at in np.ndindex(values.shape):
        x = values[at]
        out[at] = x.astype(x.dtype.newbyteorder("<")).tobytes() if isinstance(x, np.ndarray) else x
    return out


def write_objects(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Zarr v2 arrays of objects with the filters that zarr-python 3 lacks, as version 2
    wrote them."""
    cases = {}
    labels = np.array(["a", "é", "日本", "xyz"], object)
    for name, kind, filters in (
        ("json2", "text", [numcodecs.JSON()]), ("vlen-utf8", "text", [numcodecs.VLenUTF8()]),
        ("categorize", "text", [numcodecs.Categorize(labels, dtype=object)]),
        *((f"vlen-array {t}", t, [numcodecs.VLenArray(t)]) for t in ("<i4", ">i2", "<f8", "|u1", ">c8", "|b1", "<U2", ">U2", "|S3")),
    ):  # fmt: skip
        for compressor in (None, numcodecs.Blosc()):
            label, values = f"v2 object {name} {'blosc' if compressor else 'plain'}", objects(kind, rng)
            (source / label).mkdir()
            meta = {
                "zarr_format": 2, "shape": SHAPE, "chunks": CHUNK, "dtype": "|O", "order": "C", "fill_value": 0 if compressor else None,
                "filters": [f.get_config() for f in filters], "compressor": compressor.get_config() if compressor else None,
            }  # fmt: skip
            (source / label / ".zarray").write_text(json.dumps(meta, indent=4))
            for chunk in np.ndindex(*[-(-n // c) for n, c in zip(SHAPE, CHUNK, strict=True)]):
                whole = np.empty(CHUNK, object)
                whole[...] = (0 if compressor else "") if kind == "text" else None
                part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(chunk, CHUNK, strict=True))]
                whole[: part.shape[0], : part.shape[1]] = part
                data = whole
                for f in filters:
                    data = f.encode(data)
                (source / label / ".".join(map(str, chunk))).write_bytes(compressor.encode(data) if compressor else bytes(data))
            cases[label] = Case(plain_arrays(values), [read_objects])
    return cases


SUBARRAYS = {
    "little": np.dtype([("a", "<i4"), ("b", "<f8", (2,)), ("c", [("d", "u1"), ("e", "<i2", (2, 3))]), ("s", "S3")]),
    "both": np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "u1"), ("e", ">i2", (2, 3))]), ("z", "<c8")]),
}


def read_records(path: Path) -> np.ndarray:
    """Reads a Zarr v2 array of records as zarr-python 2 did; version 3 has no subarrays."""

    def parsed(descr: list) -> np.dtype:
        return np.dtype([(name, parsed(t) if isinstance(t, list) else t, *(tuple(s) for s in shape)) for name, t, *shape in descr])

    meta = json.loads((path / ".zarray").read_text())
    dtype = parsed(meta["dtype"])
    out = np.full(SHAPE, np.frombuffer(base64.b64decode(meta["fill_value"]), dtype)[0])
    for chunk in np.ndindex(*[-(-n // c) for n, c in zip(SHAPE, CHUNK, strict=True)]):
        file = path / meta["dimension_separator"].join(map(str, chunk))
        if file.exists():
            part = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(chunk, CHUNK, SHAPE, strict=True))
            values = np.frombuffer(numcodecs.get_codec(meta["compressor"]).decode(file.read_bytes()), dtype).reshape(CHUNK, order=meta["order"])
            out[part] = values[tuple(slice(0, s.stop - s.start) for s in part)]
    return out


def write_records(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Zarr v2 arrays of records with subarrays, in one byte order and in both."""
    cases = {}
    for name, dtype in SUBARRAYS.items():
        for order in "CF":
            label, values = f"v2 records {name} {order}", np.frombuffer(rng.bytes(SHAPE[0] * SHAPE[1] * dtype.itemsize), dtype).reshape(SHAPE)
            fill = np.frombuffer(rng.bytes(dtype.itemsize), dtype)[0]
            compressor = numcodecs.Blosc()
            meta = {
                "zarr_format": 2, "shape": SHAPE, "chunks": CHUNK, "dtype": dtype.descr, "order": order, "fill_value": base64.b64encode(fill.tobytes()).decode(),
                "filters": None, "compressor": compressor.get_config(), "dimension_separator": "/",
            }  # fmt: skip
            (source / label).mkdir()
            (source / label / ".zarray").write_text(json.dumps(meta))
            for chunk in np.ndindex(WRITTEN // CHUNK[0], -(-SHAPE[1] // CHUNK[1])):
                whole = np.full(CHUNK, fill)
                part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(chunk, CHUNK, strict=True))]
                whole[: part.shape[0], : part.shape[1]] = part
                file = source / label / str(chunk[0]) / str(chunk[1])
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(compressor.encode(whole.tobytes(order)))
            want = np.full(SHAPE, fill)
            rows = WRITTEN // CHUNK[0] * CHUNK[0]
            want[:rows] = values[:rows]
            cases[label] = Case(want, [read_records])
    return cases


def write_rectilinear(source: Path, rng: np.random.Generator) -> dict[str, Case]:
    """Arrays whose chunks differ in shape."""
    values = elements(rng, np.dtype("i4"))
    a = zarr.create_array(source / "rectilinear", shape=SHAPE, chunks=[[3, 5, 3], [4, 3]], dtype="i4", fill_value=7)
    a[...] = values
    return {"rectilinear": Case(values, [read_zarr_python])}


def write_groups(source: Path) -> list[str]:
    """Hierarchies of both versions, with and without consolidated metadata."""
    names = []
    for version in (2, 3):
        for consolidated in (False, True):
            names.append(f"group v{version} {consolidated}")
            g = zarr.create_group(source / names[-1], zarr_format=version, attributes={"title": "é", "nan": float("nan"), "n": [1, {"x": None}]})
            inner = g.create_group("inner", attributes={"depth": 1})
            dimensions = {"dimension_names": ("y", "x")} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["y", "x"]}}
            for parent in (g, inner):
                a = parent.create_array("a", shape=(4, 3), chunks=(2, 2), dtype="f4", **dimensions)
                a[...] = np.arange(12).reshape(4, 3)
            if consolidated:
                zarr.consolidate_metadata(g.store)
    return names


def check_group(name: str, error: str, copy: Path) -> str:
    """Returns what is wrong with Quiver's copy of a group, or nothing."""
    if error:
        return f"Quiver: {error}"
    version, consolidated = int(name[7]), name.endswith("True")
    g = zarr.open_group(copy / name, mode="r")
    if (g.metadata.consolidated_metadata is not None) != consolidated or g.metadata.zarr_format != version:
        return "another version, or consolidated metadata lost"
    attributes = dict(g.attrs)
    if attributes != {"title": "é", "nan": "NaN", "n": [1, {"x": None}]} or dict(g["inner"].attrs) != {"depth": 1}:
        return f"attributes {attributes}"
    for path in ("a", "inner/a"):
        a = g[path]
        names = a.metadata.dimension_names if version == 3 else a.attrs["_ARRAY_DIMENSIONS"]
        if tuple(names) != ("y", "x") or not np.array_equal(a[...], np.arange(12).reshape(4, 3)):
            return f"array {path}"
    return ""


def check(name: str, case: Case, error: str, elements: Path, copy: Path) -> str:
    """Returns what is wrong with a case, or nothing."""
    if error:
        return f"Quiver: {error}"
    raw = (elements / name).read_bytes()
    want = plain(case.want)
    if (raw if isinstance(want, bytes) else [base64.b64decode(x) for x in json.loads(raw)]) != want:
        return "Quiver read other elements"
    for read in case.readers:
        try:
            if not same(read(copy / name), case.want):
                return f"{read.__name__} got other elements from Quiver's copy"
        except Exception as e:
            return f"{read.__name__} of Quiver's copy: {type(e).__name__}: {e}"
    migrated, read = copy / "v3" / name, case.readers[0]
    if (migrated / "zarr.json").exists() and read.__name__ in ("read_zarr_python", "read"):
        if read.__qualname__.startswith("read_tensorstore"):
            read = read_tensorstore("zarr3")
        try:
            loses = '"0x' in (migrated / "zarr.json").read_text()  # zarr-python changes the bits of some NaN
            if not same(read(migrated), case.want) and not loses:
                return "other elements after the migration to Zarr v3"
        except Exception as e:
            if "is not registered" not in str(e):  # tensorstore lacks codecs of numcodecs in v3
                return f"after the migration to Zarr v3: {type(e).__name__}: {e}"
    return ""


def copy_arrays(source: Path, copy: Path, raw: Path) -> dict[str, str]:
    """Lets Quiver read all arrays below source, write them below copy, and their elements
    as files into raw. Returns the error of each array, or an empty string, by its name."""
    command = [os.environ.get("GO", "go"), "run", "./interop/zarrmatrix", str(source), str(copy), str(raw)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", help="print every array")
    verbose = parser.parse_args().v
    rng = np.random.default_rng(22)
    zarr.config.set({"array.rectilinear_chunks": True})
    with tempfile.TemporaryDirectory() as folder:
        source, copy, raw = (Path(folder) / name for name in ("source", "copy", "elements"))
        raw.mkdir()
        refused = {}
        cases = write_zarr_python(source, rng, refused) | write_squeeze(source, rng) | write_filters(source, rng) | write_webassembly(source, rng) | write_tensorstore(source, rng) | write_tensorstore_structs(source, rng) | write_objects(source, rng) | write_records(source, rng) | write_rectilinear(source, rng)
        groups = write_groups(source)
        errors = copy_arrays(source, copy, raw)
        failed = 0
        for name in [*cases, *groups]:
            error = errors.get(name, "not listed")
            fault = check(name, cases[name], error, raw, copy) if name in cases else check_group(name, error, copy)
            failed += bool(fault)
            if fault or verbose:
                print(f"{'FAIL' if fault else 'ok  '}  {name}{f': {fault}' if fault else ''}")
    if verbose:
        for name, error in refused.items():
            print(f"none  {name}: {type(error).__name__}: {error}")
    print(f"zarr: {len(cases)} arrays and {len(groups)} groups of other implementations, {failed} failed; zarr-python cannot write {len(refused)} more")
    return 1 if failed or len(cases) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
