"""Checks that Quiver reads unusual Zarr arrays as zarr-python does.

The arrays are written here byte by byte: bytes after compressed streams, parameters of
codecs that few writers use, fill values of other types, and metadata beyond the
specifications. Where zarr-python reads elements, Quiver must read the same ones, unless
DIFFERENT names the array. What zarr-python refuses, Quiver may read or refuse.

Usage: zarrtolerance.py [-v]. It needs Go.
"""

import argparse
import base64
import bz2
import gzip
import json
import lzma
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarrmatrix import copy_arrays

warnings.filterwarnings("ignore")

RAW = np.arange(6, dtype="<i4").tobytes()
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}

# Parts of names, and why Quiver reads other elements or none.
DIFFERENT = {
    "lzma raw x86": "filters of machine code are refused by name",
    "lzma format 0": "no encoder accepts this format",
    "filter delta bool": "numcodecs does not restore bools",
    "filter fixedscaleoffset": "of bools and complex numbers is refused by name",
    "fill '": "a text for a bool, or an integer with underscores, is a mistake",
    "fill too long": "zarr-python cuts off what the type does not hold",
    "v3 fill hex": "zarr-python loses the bits of a NaN",
    "fill 0 of text": "numcodecs stores the number 0 as empty text; zarr-python reads the text 0",
    "fill number of text": "a number is no text",
    "v2 shape is a number": "the specification wants a list",
    "v2 chunks is a number": "the specification wants a list",
    "v3 separator outside of the configuration": "an unknown key",
    "v3 attributes are a list": "the specification wants an object",
}


class Writer:
    """Writes arrays of one chunk below a folder."""

    def __init__(self, folder: Path):
        self.folder, self.names = folder, []

    def add(self, name: str, document: str, text: str, key: str, chunk: bytes | None) -> None:
        path = self.folder / name
        (path / key).parent.mkdir(parents=True)
        (path / document).write_text(text)
        if chunk is not None:
            (path / key).write_bytes(chunk)
        self.names.append(name)

    def v2(self, name: str, chunk: bytes | None = RAW, change=lambda text: text, **more) -> None:
        meta = {"zarr_format": 2, "shape": [6], "chunks": [6], "dtype": "<i4", "compressor": None, "filters": None, "fill_value": 0, "order": "C"} | more
        self.add(f"v2 {name}", ".zarray", change(json.dumps(meta)), "0", chunk)

    def v3(self, name: str, chunk: bytes | None = RAW, change=lambda text: text, **more) -> None:
        meta = {"zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "int32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6]}}}
        meta |= {"chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [LITTLE]} | more
        self.add(f"v3 {name}", "zarr.json", change(json.dumps(meta)), "c/0", chunk)

    def compressed(self, name: str, chunk: bytes, kind: str, **configuration) -> None:
        self.v2(name, chunk, compressor={"id": kind, **configuration})
        own = {"gzip": {"level": 1}, "zstd": {"level": 1, "checksum": False}, "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}
        codec = {"name": kind, "configuration": own[kind]} if kind in own else {"name": f"numcodecs.{kind}", "configuration": configuration}
        self.v3(name, chunk, codecs=[LITTLE, codec])

    def filtered(self, name: str, values: np.ndarray, codec) -> None:
        stored, fill = np.asarray(codec.encode(values)).tobytes(), [0.0, 0.0] if values.dtype.kind == "c" else values.dtype.type(0).item()
        configuration = codec.get_config()
        self.v2(f"filter {name}", stored, dtype=values.dtype.str, fill_value=fill, filters=[dict(configuration)])
        kind = configuration.pop("id")
        self.v3(f"filter {name}", stored, data_type=values.dtype.name, fill_value=fill, codecs=[{"name": f"numcodecs.{kind}", "configuration": configuration}, LITTLE])

    def fill(self, name: str, v2_type: str, v3_type, fill) -> None:
        codec = LITTLE if v3_type not in ("bool", "uint8") else {"name": "bytes"}
        self.v2(f"fill {name}", None, dtype=v2_type, fill_value=fill)
        self.v3(f"fill {name}", None, data_type=v3_type, fill_value=fill, codecs=[codec])


def write_streams(to: Writer) -> None:
    """Compressed streams with other bytes around them, and several of them."""
    encoders = {
        "gzip": gzip.compress, "zlib": zlib.compress, "bz2": bz2.compress, "lzma": lzma.compress, "lz4": numcodecs.LZ4().encode,
        "blosc": lambda raw: bytes(numcodecs.Blosc().encode(raw)), "zstd": lambda raw: bytes(numcodecs.Zstd().encode(raw)),
    }  # fmt: skip
    for kind, encode in encoders.items():
        configuration = {"level": 1} if kind in ("gzip", "zlib", "bz2", "zstd") else {}
        whole, parts, empty = encode(RAW), [encode(RAW[:8]), encode(RAW[8:])], encode(b"")
        for name, chunk in {
            "and 1 zero": whole + bytes(1), "and 4 zeros": whole + bytes(4), "and 1000 zeros": whole + bytes(1000), "and more": whole + b"more bytes than a header",
            "and a byte": whole + b"x", "after a zero": bytes(1) + whole, "in two": b"".join(parts), "in two with zeros": bytes(8).join(parts), "and an empty one": whole + empty,
            "without an end": whole[:-1], "and zeros and more": whole + bytes(2) + b"more",
        }.items():  # fmt: skip
            if (kind, name) == ("blosc", "without an end"):
                continue  # numcodecs reads beyond its input
            to.compressed(f"{kind} {name}", chunk, kind, **configuration)
    to.compressed("gzip as zlib", gzip.compress(RAW), "zlib", level=1)
    to.compressed("zlib as gzip", zlib.compress(RAW), "gzip", level=1)
    one, two, delta, x86 = lzma.FILTER_LZMA1, lzma.FILTER_LZMA2, {"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_X86}
    own = {"lc": 0, "lp": 2, "pb": 1, "dict_size": 65536}
    for name, form, filters in [
        ("alone", 2, None), ("alone with filters", 2, [{"id": one}]), ("raw lzma1", 3, [{"id": one, "preset": 3}]), ("raw lzma1 of other properties", 3, [{"id": one, **own}]),
        ("raw delta lzma1", 3, [delta, {"id": one}]), ("raw lzma2 of other properties", 3, [{"id": two, **own}]), ("raw x86", 3, [x86, {"id": two}]), ("xz x86", 1, [x86, {"id": two}]),
    ]:  # fmt: skip
        to.compressed(f"lzma {name}", lzma.compress(RAW, format=form, filters=filters, check=-1), "lzma", format=form, check=-1, preset=None, filters=filters)
    to.compressed("lzma format 0", lzma.compress(RAW), "lzma", format=0, check=-1, preset=None, filters=None)


def write_filters(to: Writer) -> None:
    bools, numbers = np.array([1, 0, 1, 1, 0, 0], "?"), np.arange(6, dtype="<i4")
    complexes = (np.arange(6) + 1j * np.arange(6)[::-1]).astype("<c8")
    for name, values, codec in [
        ("astype bool u1", bools, numcodecs.AsType("u1", "?")), ("astype bool i4", bools, numcodecs.AsType("<i4", "?")), ("astype bool f8", bools, numcodecs.AsType("<f8", "?")),
        ("astype i4 bool", numbers, numcodecs.AsType("?", "<i4")), ("astype f4 bool", numbers.astype("<f4"), numcodecs.AsType("?", "<f4")),
        ("astype c8 c16", complexes, numcodecs.AsType("<c16", "<c8")), ("astype c16 c8", complexes.astype("<c16"), numcodecs.AsType("<c8", "<c16")),
        ("astype f4 c8", numbers.astype("<f4"), numcodecs.AsType("<c8", "<f4")), ("astype c8 f4", complexes, numcodecs.AsType("<f4", "<c8")),
        ("astype c8 bool", complexes, numcodecs.AsType("?", "<c8")), ("delta c8", complexes, numcodecs.Delta("<c8")), ("delta c16", complexes.astype("<c16"), numcodecs.Delta("<c16")),
        ("delta c8 c16", complexes, numcodecs.Delta("<c8", "<c16")), ("delta bool", bools, numcodecs.Delta("?", "i1")),
        ("fixedscaleoffset c8", complexes, numcodecs.FixedScaleOffset(1, 10, "<c8")), ("fixedscaleoffset bool", bools, numcodecs.FixedScaleOffset(0, 10, "?", "u1")),
    ]:  # fmt: skip
        to.filtered(name, values, codec)
    # NumPy 2 no longer encodes with an offset that the type lacks.
    for offset in (-3, 300):
        configuration = {"offset": offset, "scale": 2, "dtype": "|u1", "astype": "<i2"}
        to.v2(f"offset {offset} of u1", np.arange(6, 12, dtype="<i2").tobytes(), dtype="|u1", filters=[{"id": "fixedscaleoffset", **configuration}])


def write_fills(to: Writer) -> None:
    utf32, terminated, raw = ({"name": name, "configuration": {"length_bytes": n}} for name, n in (("fixed_length_utf32", 12), ("null_terminated_bytes", 3), ("raw_bytes", 3)))
    seconds = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
    for name, v2_type, v3_type, fill in [
        ("true i4", "<i4", "int32", True), ("false i4", "<i4", "int32", False), ("true f4", "<f4", "float32", True), ("true u1", "|u1", "uint8", True), ("true M", "<M8[s]", seconds, True),
        ("[true,2] c8", "<c8", "complex64", [True, 2]), ("['1',nan] c8", "<c8", "complex64", ["1", "NaN"]), ("1 c8", "<c8", "complex64", 1), ("2 bool", "|b1", "bool", 2),
        ("1.0 bool", "|b1", "bool", 1.0), ("'true' bool", "|b1", "bool", "true"), ("'1_000' i4", "<i4", "int32", "1_000"), ("1.5 i4", "<i4", "int32", 1.5), ("300 u1", "|u1", "uint8", 300),
        ("hex f4", "<f4", "float32", "0x7fc00001"), ("hex f2", "<f2", "float16", "0x7e01"), ("hex signalling f4", "<f4", "float32", "0x7f800001"), ("1e300 f4", "<f4", "float32", 1e300),
        ("null i4", "<i4", "int32", None), ("null U", "<U3", utf32, None), ("too long U", "<U3", utf32, "abcdef"), ("too long S", "|S3", terminated, "YWJjZGVm"), ("too long V", "|V3", raw, "YWJjZGVm"),
        ("short S", "|S3", terminated, "YWI="), ("empty S", "|S3", terminated, ""), ("short V", "|V3", raw, "YWI="), ("empty V", "|V3", raw, ""), ("NaT M", "<M8[s]", seconds, "NaT"),
        ("text M", "<M8[s]", seconds, "2020-01-01"),
    ]:  # fmt: skip
        to.fill(name, v2_type, v3_type, fill)
    for fill in (0, "", "a", None, 5, True, "MA=="):
        name = {0: "0 of text", 5: "number of text", True: "number of text, true"}.get(fill if fill != "" else None, repr(fill).strip("'"))
        for kind in ("vlen-utf8", "vlen-bytes"):
            to.v2(f"fill {name} {kind}", None, filters=[{"id": kind}], dtype="|O", fill_value=fill)
        if fill != 0:
            to.v3(f"fill {name} string", None, codecs=[{"name": "vlen-utf8"}], data_type="string", fill_value=fill)
    for name, fill in {"null": None, "short": "AAAA", "list": [1, 2]}.items():
        to.v2(f"record fill {name}", None, dtype=[["a", "<i4"], ["b", "<f8"]], fill_value=fill)


def write_documents(to: Writer) -> None:
    to.v2("a key twice", change=lambda text: text[:-1] + ', "fill_value": 7, "shape": [5]}')
    to.v3("a key twice", change=lambda text: text[:-1] + ', "fill_value": 7, "attributes": {"a": 1, "a": {"b": 1, "b": 2}}}')
    to.v3("a key of a codec twice", change=lambda text: text.replace('"endian": ', '"endian": "big", "endian": '))
    for name, after in {"a comma": ",", "lines": "\n\n", "a zero": "\0"}.items():
        to.v2(f"and {name}", change=lambda text, after=after: text + after)
    to.v2("byte order mark", change=lambda text: "\ufeff" + text)
    for dtype in ("int32", "=i4", "i4", "|i4", "<i1", "<b1", ">u1", "f4", "float32", "bool", "?", "<S3", "U3", "datetime64[us]"):
        to.v2(f"dtype {dtype}", bytes(6 * np.dtype(dtype).itemsize), dtype=dtype, fill_value="" if dtype in ("<S3", "U3") else 0)
    for order in ("K", "A", None):
        to.v2(f"order {order}", order=order)
    for key in ("zarr_format", "shape", "chunks", "dtype", "compressor", "filters", "fill_value", "order"):
        to.v2(f"without {key}", change=lambda text, key=key: json.dumps({k: v for k, v in json.loads(text).items() if k != key}))
    to.v2("shape is a number", shape=6)
    to.v2("chunks is a number", chunks=6)
    zstd = bytes(numcodecs.Zstd().encode(RAW))
    for name, chunk, more in [
        ("chunks 0", RAW, {"chunks": [0]}), ("chunks null", RAW, {"chunks": None}), ("separator null", RAW, {"dimension_separator": None}), ("separator empty", RAW, {"dimension_separator": ""}),
        ("filter null", RAW, {"filters": [None]}), ("compressor without id", RAW, {"compressor": {"level": 1}}), ("compressor with another key", zstd, {"compressor": {"id": "zstd", "level": 1, "x": 3}}),
        ("attributes", RAW, {"attributes": {"a": 1}}), ("chunk too long", RAW + bytes(4), {}), ("chunk too short", RAW[:-4], {}), ("chunk empty", b"", {}),
    ]:  # fmt: skip
        to.v2(name, chunk, **more)
    for name, chunk, more in [
        ("chunk too long", RAW + bytes(4), {}), ("chunk empty", b"", {}), ("no codecs", RAW, {"codecs": []}), ("no codec of bytes", zstd, {"codecs": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]}),
        ("another key", RAW, {"x": 1}), ("another key that may be ignored", RAW, {"x": {"must_understand": False}}), ("another key that must be understood", RAW, {"x": {"must_understand": True}}),
        ("two names of one axis", RAW, {"dimension_names": ["x", "y"]}), ("a number as a name", RAW, {"dimension_names": [1]}), ("attributes are a list", RAW, {"attributes": []}),
        ("separator outside of the configuration", RAW, {"chunk_key_encoding": {"name": "default", "separator": "/"}}), ("no such separator", RAW, {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}}),
        ("no such grid", RAW, {"chunk_grid": {"name": "none"}}), ("grid of a number", RAW, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": 6}}}), ("type of NumPy", RAW, {"data_type": "<i4"}),
        ("codec with another key", zstd, {"codecs": [LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False, "x": 1}}]}),
    ]:  # fmt: skip
        to.v3(name, chunk, **more)


def elements(path: Path) -> bytes | list | Exception:
    """The elements that zarr-python reads, in the layout of Quiver."""
    try:
        values = np.asarray(zarr.open_array(path, mode="r")[...])
    except Exception as e:
        return e
    if values.dtype.kind in "OT":
        return [v if isinstance(v, bytes) else str(v).encode() for v in values.ravel().tolist()]
    if values.dtype.kind in "Mm":
        values = values.view(values.dtype.byteorder + "i8")
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", help="print every array")
    verbose = parser.parse_args().v
    with tempfile.TemporaryDirectory() as temporary:
        source, copy, raw = (Path(temporary) / name for name in ("source", "copy", "elements"))
        raw.mkdir()
        to = Writer(source)
        for write in (write_streams, write_filters, write_fills, write_documents):
            write(to)
        errors = copy_arrays(source, copy, raw)
        failed, alike, more, needed = 0, 0, 0, set()
        for name in to.names:
            want, file = elements(source / name), raw / name
            got = file.read_bytes() if file.exists() else None
            if got is not None and isinstance(want, list):
                got = [base64.b64decode(x) for x in json.loads(got)]
            reasons = [part for part in DIFFERENT if part in name]
            if isinstance(want, Exception):
                more += got is not None
                result = f"zarr-python: {type(want).__name__}"
            elif got == want:
                alike += 1
                result = "alike"
            else:
                needed.update(reasons)
                result = "; ".join(DIFFERENT[r] for r in reasons) or "FAIL"
                failed += not reasons
            if verbose or result == "FAIL":
                print(f"{name}: {result}. {errors.get(name, 'not listed')}")
        for part in DIFFERENT.keys() - needed:
            failed += 1
            print(f"FAIL  no array named {part!r} is read otherwise")
    print(f"zarr: {len(to.names)} unusual arrays, {alike} read as in zarr-python, {more} that it refuses, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
