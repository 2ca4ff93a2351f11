"""Writes golden_zfp.json: arrays and their encodings by zfp without a header (zfpy 1.0.1),
with what zfp decodes. Small integers are promoted as zarr-extensions has it ("zfp")."""

import base64
import json
from pathlib import Path

import numpy as np
import zfpy

rng = np.random.default_rng(6)
ZFP = {"i4": "i4", "i8": "i8", "f4": "f4", "f8": "f8", "u4": "i4", "u8": "i8", "M8[s]": "i8"}


def promote(values: np.ndarray) -> np.ndarray:
    bits = 8 * values.dtype.itemsize
    if bits < 32:
        offset = 1 << (bits - 1) if values.dtype.kind == "u" else 0
        return (values.astype("i4") - offset) << (31 - bits)
    return values.view(ZFP[values.dtype.str[1:]])


def demote(decoded: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize
    if bits < 32:
        offset = 1 << (bits - 1) if dtype.kind == "u" else 0
        limits = np.iinfo(dtype)
        return np.clip((decoded >> (31 - bits)) + offset, limits.min, limits.max).astype(dtype)
    if dtype.kind == "u":
        decoded = np.maximum(decoded, 0)
    return decoded.view(dtype)


def encode(b: bytes) -> str:
    return base64.b64encode(b).decode()


cases = []
for name in ("i1", "u1", "i2", "u2", *ZFP):
    dtype = np.dtype(name)
    for shape in ((50,), (9, 7), (5, 3, 6), (2, 3, 4, 5), (1, 1), ()):
        walk = np.cumsum(rng.normal(size=shape), axis=-1 if shape else None).reshape(shape)
        values = (np.abs(walk * 9) if dtype.kind == "u" else walk * 9).astype("i8" if dtype.kind == "M" else dtype).astype(dtype)
        inner = promote(values).reshape(shape or (1,))
        options = [("reversible", {}), ("fixed_rate", {"rate": 12.5}), ("fixed_precision", {"precision": 20})]
        if dtype.kind == "f":
            options += [("fixed_accuracy", {"tolerance": 0.3}), ("fixed_accuracy", {"tolerance": 4.0}), ("fixed_rate", {"rate": 3})]
        for mode, o in options:
            encoded = zfpy.compress_numpy(np.ascontiguousarray(inner), write_header=False, **o)
            decoded = zfpy._decompress(encoded, zfpy.dtype_to_ztype(inner.dtype), inner.shape, **o).reshape(shape)
            case = {"Name": f"{name} {shape} {mode} {o}", "DType": dtype.str, "Shape": shape, "Config": {"mode": mode} | o}
            cases.append(case | {"Values": encode(values.tobytes()), "Encoded": encode(encoded), "Decoded": encode(demote(decoded, dtype).tobytes())})
Path(__file__).with_name("golden_zfp.json").write_text("\n".join(["[", ",\n".join(json.dumps(c) for c in cases), "]\n"]))
