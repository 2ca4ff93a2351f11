"""Checks the codecs cast_value and scale_offset against zarr-python.

zarr-python encodes random elements with random parameters. Quiver must encode the same
elements to the same bytes, or fail as well, and decode zarr-python's bytes to the same
elements. Arrays whose fill value the codecs do not restore are only read: Quiver makes none.

Usage: zarrcast.py [--arrays N] [--seed N] [-v]. It needs Go.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import CastValue, ScaleOffset
from zarrmatrix import copy_arrays

warnings.filterwarnings("ignore")

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 128.0, 255.5, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 65504.0, 65520.0, 1e300]


def chance(rng: np.random.Generator, p: float) -> bool:
    return bool(rng.random() < p)


def pick(rng: np.random.Generator, items):
    return items[rng.integers(len(items))]


def elements(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Small numbers, limits of types, and sometimes any bits."""
    if dtype.kind == "f":
        small = np.round(rng.normal(size=n) * 100) / 4
        if chance(rng, 0.5):
            small[rng.integers(0, n, 3)] = [pick(rng, SPECIAL) for _ in range(3)]
        return small.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    match pick(rng, ["small", "small", "positive", "any", "limits"]):
        case "small":
            return rng.integers(max(low, -100), 100, n).astype(dtype)
        case "positive":
            return rng.integers(0, min(high, 250), n, endpoint=True).astype(dtype)
        case "any":
            return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()
    return np.array([pick(rng, [low, high, 0, 1, high - 1]) for _ in range(n)], dtype)


def scalar(rng: np.random.Generator, dtype: np.dtype):
    """A number as JSON has it, of a type."""
    if dtype.kind == "f":
        return pick(rng, ["NaN", "Infinity", "-Infinity", 0.5, 2.0, -3.25, 0.0])
    return int(pick(rng, [0, 1, 7, 100, int(np.iinfo(dtype).max)]))


def cast_value(rng: np.random.Generator, dtype: np.dtype) -> CastValue:
    target = np.dtype(pick(rng, TYPES))
    how = {"data_type": target.name, "rounding": pick(rng, ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"])}
    if chance(rng, 0.6):
        how["out_of_range"] = pick(rng, ["clamp", "wrap"] if target.kind != "f" else ["clamp"])
    if chance(rng, 0.4):
        how["scalar_map"] = {}
        if chance(rng, 0.8):
            how["scalar_map"]["encode"] = [(scalar(rng, dtype), scalar(rng, target)) for _ in range(rng.integers(1, 3))]
        if chance(rng, 0.6):
            how["scalar_map"]["decode"] = [(scalar(rng, target), scalar(rng, dtype)) for _ in range(rng.integers(1, 3))]
    return CastValue(**how)


def scale_offset(rng: np.random.Generator, dtype: np.dtype) -> ScaleOffset:
    if dtype.kind == "f":
        return ScaleOffset(offset=pick(rng, [0, 1.5, -100, 0.1]), scale=pick(rng, [1, 2, 0.5, 10, 0.1]))
    return ScaleOffset(offset=int(pick(rng, [0, 1, 5, 100])), scale=int(pick(rng, [1, 2, 3])))


def write(folder: Path, name: str, rng: np.random.Generator, about: Counter):
    """Writes the input, and the array that zarr-python encodes. Returns the elements that it
    decodes, the exception of writing, or None if it cannot create the array."""
    dtype, n = np.dtype(pick(rng, TYPES)), 8
    values = elements(rng, dtype, n)
    kind = pick(rng, ["cast", "cast", "cast", "scale", "both"])
    filters = []
    if kind != "cast":
        filters.append(scale_offset(rng, dtype))
    if kind != "scale":
        filters.append(cast_value(rng, dtype))
    fill = elements(rng, dtype, n)[0] if chance(rng, 0.3) else dtype.type(0)
    if kind != "cast" and dtype.kind in "iu" and dtype.itemsize == 8:
        values, fill = values % 1000 + 100, dtype.type(100)  # zarr-python does not notice what 64 bits do not hold
    try:
        a = zarr.create_array(folder / name, shape=(n,), chunks=(n,), dtype=dtype, fill_value=fill, filters=filters, compressors=None, config={"write_empty_chunks": True})
    except Exception as e:
        about[f"not created: {type(e).__name__}"] += 1
        return None
    zarr.create_array(folder / f"{name}.input", shape=(n,), chunks=(n,), dtype=dtype, compressors=None)[...] = values
    about[kind] += 1
    try:
        a[...] = values
    except Exception as e:
        about["not encoded"] += 1
        return e
    try:
        return zarr.open_array(folder / name, mode="r")[...]
    except Exception as e:
        about["not decoded"] += 1
        return e


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", help="print every array")
    parser.add_argument("--arrays", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=np.random.SeedSequence().entropy % 10**9, help="another one each time if absent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        source, copy, raw = (Path(temporary) / name for name in ("source", "copy", "elements"))
        raw.mkdir()
        cases, about = {}, Counter()
        for i in range(options.arrays):
            name = f"{options.seed}-{i}"
            want = write(source, name, np.random.default_rng([options.seed, i]), about)
            if want is not None:
                cases[name] = want
        errors = copy_arrays(source, copy, raw)
        failed = 0
        for name, want in cases.items():
            fault = check(name, want, errors.get(name, "not listed"), source, copy, raw)
            failed += bool(fault)
            if fault or options.v:
                meta = json.loads((source / name / "zarr.json").read_text())
                values = zarr.open_array(source / f"{name}.input", mode="r")[...]
                print(f"{'FAIL' if fault else 'ok  '}  {name} {meta['data_type']} {values.tolist()} fill {meta['fill_value']} {json.dumps(meta['codecs'][:-1])}: {fault}")
    print(f"zarr: {len(cases)} random arrays of cast_value and scale_offset of seed {options.seed}, {failed} failed; {dict(sorted(about.items()))}")
    return 1 if failed else 0


def check(name: str, want, error: str, source: Path, copy: Path, raw: Path) -> str:
    if isinstance(want, Exception):
        return "" if error else f"Quiver does not fail: {type(want).__name__}: {want}"
    if error and not ("fill value" in error and (raw / name).exists()):
        return f"Quiver: {error}"
    if not error and (source / name / "c/0").read_bytes() != (copy / name / "c/0").read_bytes():
        return f"Quiver encodes {(copy / name / 'c/0').read_bytes().hex()}, want {(source / name / 'c/0').read_bytes().hex()}"
    got, expected = (raw / name).read_bytes(), want.astype(want.dtype.newbyteorder("<")).tobytes()
    return "" if got == expected else f"Quiver decodes {np.frombuffer(got, want.dtype).tolist()}, want {want.tolist()}"


if __name__ == "__main__":
    sys.exit(main())
