#!/usr/bin/env python3
"""Writes numcodecs.json: what numcodecs encodes and decodes, for TestCodecsMatchNumcodecs.

    pip install numcodecs==0.17.1 google-crc32c && python make.py

Each case has the configuration of a codec, the dtype of the array that enters, the
array, its encoding, and what that decodes to unless it is the same array. "exact" means that every encoder writes
the same bytes.
"""

import base64
import json
from pathlib import Path

import numcodecs
import numpy as np
from numcodecs.registry import get_codec

CASES = []


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def add(config: dict, values: np.ndarray, exact: bool = True) -> None:
    codec = get_codec(dict(config))
    encoded = np.asarray(codec.encode(values)).tobytes()
    decoded = np.asarray(codec.decode(np.frombuffer(encoded, "u1"))).tobytes()
    CASES.append({
        "config": config, "dtype": values.dtype.str, "shape": list(values.shape),
        "values": text(values.tobytes()), "encoded": text(encoded), "exact": exact,
        **({} if decoded == values.tobytes() else {"decoded": text(decoded)}),
    })


def byte_codecs() -> None:
    numbers = np.arange(10, dtype="<i4")
    long = np.arange(600, dtype="<i4") // 7
    odd = np.arange(13, dtype="u1") * 19
    for values in [numbers, long, odd]:
        for id in ["crc32", "adler32", "crc32c"]:
            for config in [{}, {"location": "start"}, {"location": "end"}]:
                add({"id": id, **config}, values)
        add({"id": "fletcher32"}, values)
        add({"id": "jenkins_lookup3"}, values)
        add({"id": "jenkins_lookup3", "initval": 1234567}, values)
        for config in [{"id": "zlib", "level": 1}, {"id": "zlib", "level": 9}, {"id": "gzip", "level": 1}, {"id": "bz2", "level": 1},
                       {"id": "bz2", "level": 9}, {"id": "lz4", "acceleration": 1}, {"id": "zstd", "level": 0}, {"id": "zstd", "level": 5, "checksum": True},
                       {"id": "lzma"}, {"id": "lzma", "format": 1, "check": 1, "preset": 0}, {"id": "lzma", "format": 1, "check": 0, "preset": 9},
                       {"id": "lzma", "format": 1, "check": 10, "preset": 1}, {"id": "lzma", "format": 2, "check": -1, "preset": 6},
                       {"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]},
                       {"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 2}, {"id": 3, "dist": 256}, {"id": 33}]},
                       {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
                       {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": -1, "blocksize": 0}]:
            add(config, values, exact=False)
        add({"id": "base64"}, values)
    for size in [1, 2, 4, 5, 8]:
        add({"id": "shuffle", "elementsize": size}, numbers)
    for length in [1, 2, 11, 12, 13, 24, 25, 719, 721, 722]:
        values = (np.arange(length) * 31 % 251).astype("u1")
        add({"id": "fletcher32"}, values)
        add({"id": "jenkins_lookup3"}, values)
    for fill in [0, 255]:
        add({"id": "fletcher32"}, np.full(1001, fill, "u1"))


def array_codecs() -> None:
    rng = np.random.default_rng(5)
    for dtype in ["|i1", "|u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8"]:
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, 40, dtype=np.dtype(dtype).newbyteorder("="), endpoint=True).astype(dtype)
        add({"id": "delta", "dtype": dtype}, values)
        add({"id": "delta", "dtype": dtype, "astype": dtype}, values.reshape(8, 5))
    add({"id": "delta", "dtype": "<i4", "astype": "<i2"}, np.arange(50, dtype="<i4") ** 2)
    add({"id": "delta", "dtype": "<i4", "astype": "|i1"}, np.arange(100, 150, dtype="<i4"))
    add({"id": "delta", "dtype": "<i8", "astype": "<i8"}, np.arange(9, dtype="<i8").view("<M8[ns]"))
    add({"id": "delta", "dtype": "<u2", "astype": "<u2"}, np.arange(12, dtype="<i4"))  # reinterprets
    for dtype in ["<f2", "<f4", ">f4", "<f8"]:
        values = (rng.normal(size=40) * 100).astype(dtype)
        add({"id": "delta", "dtype": dtype}, values)
        for digits in range(-2, 6):
            add({"id": "quantize", "digits": digits, "dtype": dtype, "astype": dtype}, values)
        for keep in [0, 1, 5, 10]:
            if dtype[0] == "<":
                add_round(keep, values)
        add({"id": "fixedscaleoffset", "scale": 10, "offset": 0, "dtype": dtype, "astype": "<i2"}, values)
        add({"id": "fixedscaleoffset", "scale": 0.1, "offset": -3.7, "dtype": dtype, "astype": "|i1"}, values)
        add({"id": "fixedscaleoffset", "scale": 3.3, "offset": 1.1, "dtype": dtype, "astype": dtype}, values)
    add({"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}, rng.normal(size=20))
    for dtype in ["|i1", "<i2", "<i4", "<u2", "<i8"]:
        values = np.arange(20, 60).astype(dtype)
        for offset, scale in [(20, 1), (20, 2), (20.5, 1), (3, 0.25), (2.5, 1.5)]:
            for astype in ["|u1", "<i4", "<f4", "<f8"]:
                if offset == 20 and dtype == "|i1" and astype == "|u1" and scale == 2:
                    continue
                add({"id": "fixedscaleoffset", "scale": scale, "offset": offset, "dtype": dtype, "astype": astype}, values)
    for decode, encode in [("<f8", "<f4"), ("<f8", "<f2"), ("<i8", "<i4"), ("<i4", "|u1"), ("<u8", "<f4"), ("<i8", "<f4"), ("<f4", "<i4"), ("<i2", "<f2"), (">i4", "<i8")]:
        values = (rng.normal(size=30) * 2000).astype(decode)
        if encode == "|u1":
            values = np.abs(values) % 256
        if decode == "<u8":
            values = rng.integers(0, 2**64, 30, dtype="u8")
        add({"id": "astype", "decode_dtype": decode, "encode_dtype": encode}, values)
    for n in [1, 7, 8, 9, 10, 40]:
        add({"id": "packbits"}, rng.integers(0, 2, n).astype(bool))


def add_round(keep: int, values: np.ndarray) -> None:
    codec = numcodecs.BitRound(keep)
    encoded = np.asarray(codec.encode(values)).tobytes()
    CASES.append({"config": {"id": "bitround", "keepbits": keep}, "dtype": values.dtype.str, "shape": list(values.shape),
                  "values": text(values.tobytes()), "encoded": text(encoded), "decoded": text(encoded), "exact": True})


def main() -> None:
    with np.errstate(all="raise"):
        byte_codecs()
        with np.errstate(all="ignore"):
            array_codecs()
    lines = ",\n".join(json.dumps(case) for case in CASES)
    (Path(__file__).parent / "numcodecs.json").write_text(f"[\n{lines}\n]\n")


main()
