"""The inputs of check.py: files of other projects, files of testdata, and generated
files.

Generated files contain every type that the command converts, in rare forms: slices of
larger arrays, empty and all-null columns, batches of different lengths, dictionaries
that change between batches, several NaNs, and the extremes of each type.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
GOLDEN = "arrow-testing/arrow-ipc-stream/integration"


def shared() -> list[Path]:
    files = []
    for folder in ("0.14.1", "0.17.1", "1.0.0-bigendian", "1.0.0-littleendian", "2.0.0-compression", "4.0.0-shareddict"):
        files += SHARED.glob(f"{GOLDEN}/{folder}/*.stream")
        files += SHARED.glob(f"{GOLDEN}/{folder}/*.arrow_file")
    files += SHARED.glob("parquet-testing/*.parquet")
    return sorted(files)


def testdata() -> list[Path]:
    return sorted(p for p in (ROOT / "testdata").iterdir() if p.suffix in (".parquet", ".arrow", ".arrows"))


def numbers(rng: np.random.Generator, t: pa.DataType, n: int) -> np.ndarray:
    """n numbers of a type, including its extremes."""
    dtype = np.dtype(t.to_pandas_dtype())
    values = np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()
    if dtype.kind == "f":
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, np.finfo(dtype).tiny, np.finfo(dtype).max], dtype)
    else:
        special = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
    values[: len(special)] = special[:n]
    return values


def of_bytes(t: pa.DataType, values: np.ndarray, mask: np.ndarray) -> pa.Array:
    """An array of a fixed-width type over the bytes of values; True in mask is null."""
    validity = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(t, len(mask), [validity, pa.py_buffer(values.tobytes())])


TEXT = ("", "a", "straße", "日本語", "🚀", "\0", "x" * 300, "NA", "nan")

TEMPORAL = {
    "date32": pa.date32(),
    "date64": pa.date64(),
    "time32_s": pa.time32("s"),
    "time32_ms": pa.time32("ms"),
    "time64_us": pa.time64("us"),
    "time64_ns": pa.time64("ns"),
    **{f"timestamp_{u}": pa.timestamp(u) for u in ("s", "ms", "us", "ns")},
    "timestamp_utc": pa.timestamp("us", "UTC"),
    "timestamp_oslo": pa.timestamp("ns", "Europe/Oslo"),
    "timestamp_offset": pa.timestamp("s", "+05:30"),
    **{f"duration_{u}": pa.duration(u) for u in ("s", "ms", "us", "ns")},
}


def column(rng: np.random.Generator, name: str, n: int, mask: np.ndarray) -> pa.Array:
    """A generated column by name; True in mask is null."""
    numeric = {str(t): t for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
                                   pa.uint64(), pa.float16(), pa.float32(), pa.float64())}  # fmt: skip
    if t := numeric.get(name):
        return of_bytes(t, numbers(rng, t, n), mask)
    if t := TEMPORAL.get(name):
        if name.startswith("date64"):
            values = rng.integers(-(10**5), 10**5, n) * 86_400_000
        elif name.startswith(("time32", "time64")):
            per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[t.unit]
            values = rng.integers(0, per_day, n)
        else:
            values = numbers(rng, pa.int32() if t.bit_width == 32 else pa.int64(), n)
            # Zarr represents a missing time by NaT, so NaT cannot be a value.
            values[values == np.iinfo(np.int64).min] = 0
        return of_bytes(t, values.astype("<i4" if t.bit_width == 32 else "<i8"), mask)
    texts = [None if m else v for v, m in zip(rng.choice(TEXT, n), mask)]
    match name:
        case "null":
            return pa.nulls(n)
        case "bool":
            return pa.array(rng.integers(0, 2, n).astype(bool), mask=mask)
        case "utf8" | "large_utf8" | "utf8_view":
            return pa.array(texts, {"utf8": pa.string(), "large_utf8": pa.large_string(), "utf8_view": pa.string_view()}[name])
        case "binary" | "large_binary" | "binary_view":
            values = [None if m else rng.bytes(rng.integers(0, 40)) for m in mask]
            t = {"binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view()}[name]
            return pa.array(values, t)
        case "fixed_size_binary":
            return pa.array([None if m else rng.bytes(5) for m in mask], pa.binary(5))
        case "decimal32" | "decimal64" | "decimal128" | "decimal256":
            t = {"decimal32": pa.decimal32(9, 2), "decimal64": pa.decimal64(18, 0), "decimal128": pa.decimal128(38, 10),
                 "decimal256": pa.decimal256(76, -3)}[name]  # fmt: skip
            digits = ["".join(map(str, rng.integers(0, 10, t.precision))) for _ in range(n)]
            unscaled = [int(d) * (-1) ** i for i, d in enumerate(digits)]
            raw = b"".join(v.to_bytes(t.byte_width, "little", signed=True) for v in unscaled)
            return of_bytes(t, np.frombuffer(raw, "u1"), mask)
        case "dictionary_utf8":
            return pa.array(texts, pa.string()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        case "dictionary_int64_ordered":
            codes = pa.array(rng.integers(0, 3, n), pa.uint16(), mask=mask)
            return pa.DictionaryArray.from_arrays(codes, pa.array([30, -10, 20], pa.int64()), ordered=True)
        case "dictionary_of_null":
            codes = pa.array(rng.integers(0, 3, n), pa.int32(), mask=mask)
            return pa.DictionaryArray.from_arrays(codes, pa.array(["one", None, "three"]))
        case "list3_float32" | "list2_list3_int16":
            leaf = pa.int16() if name.endswith("int16") else pa.float32()
            width = 6 if name.startswith("list2") else 3
            elements = of_bytes(leaf, numbers(rng, leaf, n * width), np.repeat(mask, width) | (rng.random(n * width) < 0.1 * mask.any()))
            inner = pa.FixedSizeListArray.from_arrays(elements, 3)
            outer = pa.FixedSizeListArray.from_arrays(inner, 2) if width == 6 else inner
            t = outer.type
            validity = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
            return pa.Array.from_buffers(t, n, [validity], children=[inner if width == 6 else elements])
        case "tensor_2x3":
            t = pa.fixed_shape_tensor(pa.float64(), (2, 3), dim_names=("y", "x"))
            elements = of_bytes(pa.float64(), numbers(rng, pa.float64(), n * 6), np.zeros(n * 6, bool))
            validity = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
            cells = pa.Array.from_buffers(t.storage_type, n, [validity], children=[elements])
            return pa.ExtensionArray.from_storage(t, cells)
    raise KeyError(name)


NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "halffloat", "float", "double",
    "utf8", "large_utf8", "utf8_view", "binary", "large_binary", "binary_view", "fixed_size_binary", *TEMPORAL,
    "decimal32", "decimal64", "decimal128", "decimal256", "dictionary_utf8", "dictionary_int64_ordered",
    "dictionary_of_null", "list3_float32", "list2_list3_int16", "tensor_2x3", "null",
)  # fmt: skip


def table(seed: int, n: int, null_share: float, names=NAMES, cut: int = 0) -> pa.Table:
    """A table of n rows; if cut > 0, a slice of a longer table."""
    rng = np.random.default_rng(seed)
    arrays = []
    for name in names:
        mask = rng.random(n + 2 * cut) < null_share
        arrays.append(column(rng, name, n + 2 * cut, mask).slice(cut, n))
    return pa.Table.from_arrays(arrays, names=list(names)).replace_schema_metadata({"made": "for the interop checks"})


def write_ipc(path: Path, batches: list[pa.Table], compression: str | None = None) -> Path:
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with make(str(path), batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as sink:
        for batch in batches:
            sink.write_table(batch)
    return path


def made(folder: Path) -> list[Path]:
    folder.mkdir(parents=True)
    full, some = table(1, 100, 0), table(2, 100, 0.3)
    # A stream may replace a dictionary between batches; a file may not.
    fixed = [n for n in NAMES if not n.startswith("dictionary_utf8")]
    uneven = [table(3 + i, n, share, fixed, cut) for i, (n, share, cut) in enumerate([(1, 0, 0), (77, 0, 3), (0, 0, 0), (300, 0.5, 5), (64, 0, 1)])]
    replacing = [table(20 + i, n, 0.2, cut=2) for i, n in enumerate((10, 0, 90, 33))]
    # Types that Parquet cannot represent completely.
    unrepresentable = {"tensor_2x3", "list2_list3_int16", "list3_float32", "dictionary_of_null", "dictionary_int64_ordered",
               "decimal32", "decimal64", "decimal256", "timestamp_s", "timestamp_offset", "date64"}  # fmt: skip
    flat = [n for n in NAMES if n not in unrepresentable]
    files = [
        write_ipc(folder / "full.arrow", [full]),
        write_ipc(folder / "nulls.arrow", [some]),
        write_ipc(folder / "all-null.arrow", [table(5, 20, 1.1)]),
        write_ipc(folder / "empty.arrow", [table(6, 0, 0)]),
        write_ipc(folder / "empty.arrows", [table(6, 0, 0)]),
        write_ipc(folder / "uneven.arrow", uneven, "zstd"),
        write_ipc(folder / "uneven.arrows", uneven, "lz4"),
        write_ipc(folder / "replaced-dictionaries.arrows", replacing),
    ]
    pa.feather.write_feather(some, str(folder / "nulls.feather"), compression="lz4")
    pa.parquet.write_table(pa.concat_tables([full, some]).select(flat), folder / "nulls.parquet", row_group_size=64)
    return [*files, folder / "nulls.feather", folder / "nulls.parquet"]
