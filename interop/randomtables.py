"""Random Arrow tables: every type that pyarrow has, nested to a depth, in rare forms.

Arrays are slices of longer ones, lists under nulls are not empty, list views overlap and
are out of order, dictionaries hold nulls and duplicates and change between batches, and
numbers include NaN, -0, NaT and the extremes.
"""

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from inputs import numbers
from nested import stored

UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Oslo", "+05:30", "America/St_Johns")
TEXT = ("", "a", "b", "straße", "日本語", "🚀", "\0", "a\0b", "x" * 200, "NA", "nan", "null", "e\u0301", "line\nbreak", '"', "\\")
# Names that a Zarr node or a file cannot have, or that readers treat as special.
NAMES = (
    "a", "b", "A", "value", "values", "mask", "codes", "categories", "_index", "index", "__index_level_0__", "", ".", "..", "...",
    "a/b", "/", "a\\b", "zarr.json", ".zarray", "c", "c/0", "a b", " ", "日本", "e\u0301", "\u00e9", "item", "list-offsets", "a-data",
    "x" * 255, "x" * 256, "é" * 200, "__proto__", "a:b", "*?", "CON", "\n", '"', "%2F", "~", "-", "--columns", "0", "true", "a,b",
)  # fmt: skip


def leaves() -> list[pa.DataType]:
    """The types that are not nested."""
    return [
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
        pa.binary_view(), pa.binary(1), pa.binary(5), pa.binary(0), pa.decimal32(9, 2), pa.decimal64(18, -2), pa.decimal128(38, 10),
        pa.decimal128(3, 3), pa.decimal256(76, 0), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
        pa.time64("ns"), *(pa.duration(u) for u in UNITS), pa.month_day_nano_interval(), pa.uuid(), pa.bool8(), pa.json_(),
        pa.opaque(pa.binary(), "other", "a vendor"), pa.fixed_shape_tensor(pa.float32(), (2, 3), dim_names=("y", "x")),
        pa.fixed_shape_tensor(pa.int16(), (2, 2), permutation=(1, 0)),
    ]  # fmt: skip


LEAVES = leaves()


class Tables:
    """Makes tables from one seed."""

    def __init__(self, seed: list[int], parquet: bool = False):
        self.rng = np.random.default_rng(seed)
        self.parquet = parquet  # only types that pyarrow can write as Parquet
        self.dictionaries: dict[str, pa.Array] = {}
        # False inside a dictionary: arrow-go v18.8 reads neither unions nor runs there, since
        # its readDictionary takes every batch for one of an old version.
        self.readable = True

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # Types.

    def type(self, depth: int) -> pa.DataType:
        """A type with at most depth levels of nesting."""
        if depth == 0 or self.chance(0.35):
            if self.chance(0.15):
                return pa.timestamp(self.pick(*UNITS), self.pick(*ZONES))
            return self.pick(*LEAVES)
        kinds = ["list", "large_list", "fixed_size_list", "map", "struct", "struct", "dictionary"]
        if not self.parquet:
            kinds += ["list_view", "large_list_view"]
        if not self.parquet and self.readable:
            kinds += ["dense_union", "sparse_union", "run_end_encoded"]
        match kind := self.pick(*kinds):
            case "list" | "large_list" | "list_view" | "large_list_view":
                make = {"list": pa.list_, "large_list": pa.large_list, "list_view": pa.list_view, "large_list_view": pa.large_list_view}[kind]
                return make(self.field(self.pick("item", "element", "a/b"), depth - 1))
            case "fixed_size_list":
                # A missing list inside of a list is not kept.
                item = self.field("item", depth - 1)
                if types.is_fixed_size_list(stored(item.type)):
                    item = item.with_nullable(False)
                return pa.list_(item, int(self.pick(1, 2, 3) if self.parquet else self.pick(0, 1, 2, 3)))
            case "map":
                key = pa.field("key", self.pick(*(t for t in LEAVES if t != pa.null())), nullable=False)
                return pa.map_(key, self.field("value", depth - 1), keys_sorted=self.chance(0.2))
            case "struct":
                n = int(self.pick(0, 1, 1, 2, 3)) if not self.parquet else int(self.pick(1, 2, 3))
                return pa.struct([self.field(self.name(0.3), depth - 1) for _ in range(n)])
            case "dense_union" | "sparse_union":
                n = int(self.pick(1, 2, 2, 3))
                # arrow-go cannot write unions with a type code of 127.
                codes = self.rng.choice(127, n, replace=False).tolist() if self.chance(0.3) else list(range(n))
                fields = [pa.field(self.name(0.2), self.type(depth - 1)) for _ in range(n)]
                return (pa.dense_union if kind == "dense_union" else pa.sparse_union)(fields, codes)
            case "run_end_encoded":
                return pa.run_end_encoded(self.pick(pa.int16(), pa.int32(), pa.int64()), self.encoded(depth - 1))
            case _:
                index = self.pick(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
                outer, self.readable = self.readable, False
                value = self.pick(pa.string(), pa.string(), pa.int64(), self.encoded(depth - 1))
                self.readable = outer
                return pa.dictionary(index, value, ordered=self.chance(0.2))

    def encoded(self, depth: int) -> pa.DataType:
        """The type of a dictionary's or of runs' values. pyarrow cannot read extension types
        there, since a field's metadata does not say which of both types is one. IPC has no
        dictionaries of dictionaries."""
        while isinstance(t := self.type(depth), pa.BaseExtensionType) or types.is_dictionary(t) and not self.readable:
            pass
        return t

    def name(self, rare: float) -> str:
        if self.chance(rare):
            return self.pick(*NAMES)
        return "".join(self.rng.choice(list("abcdefgh_"), self.rng.integers(1, 8)))

    def field(self, name: str, depth: int) -> pa.Field:
        t = self.type(depth)
        nullable = True if t == pa.null() else not self.chance(0.2)
        metadata = {"k": self.pick("v", "", "日本")} if self.chance(0.1) else None
        return pa.field(name, t, nullable, metadata)

    def schema(self) -> pa.Schema:
        n = int(self.pick(0, 1, 2, 3, 4, 6) if not self.parquet else self.pick(1, 2, 3, 4))
        fields = [self.field(self.name(0.25), int(self.rng.integers(0, 5))) for _ in range(n)]
        metadata = {"made": "at random", "": "", "k\n": "日本"} if self.chance(0.3) else None
        return pa.schema(fields, metadata)

    # Values.

    def array(self, t: pa.DataType, n: int, nulls: float) -> pa.Array:
        """n values, often a slice of more."""
        before, after = (int(self.rng.integers(0, 9)), int(self.rng.integers(0, 4))) if self.chance(0.4) else (0, 0)
        return self.whole(t, n + before + after, nulls).slice(before, n)

    def child(self, f: pa.Field, n: int) -> pa.Array:
        return self.array(f.type, n, self.pick(0, 0.2, 0.2, 1) if f.nullable else 0)

    def validity(self, missing: np.ndarray) -> pa.Buffer | None:
        if not missing.any() and self.chance(0.5):
            return None
        return pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())

    def offsets(self, n: int) -> np.ndarray:
        sizes = self.rng.choice([0, 0, 1, 2, 5], n)
        return np.concatenate([[0], np.cumsum(sizes)]) + int(self.pick(0, 0, 2))

    def whole(self, t: pa.DataType, n: int, nulls: float) -> pa.Array:
        rng = self.rng
        if isinstance(t, pa.BaseExtensionType):
            storage = self.whole(t.storage_type, n, nulls)
            if isinstance(t, pa.JsonType):
                storage = pa.array([None if v is None else '{"a":1}' for v in storage.to_pylist()], t.storage_type)
            elif isinstance(t, pa.FixedShapeTensorType):
                fixed = pa.field("item", t.value_type, nullable=False)
                cells = self.whole(pa.list_(fixed, t.storage_type.list_size), n, nulls)
                storage = pa.Array.from_buffers(t.storage_type, n, [cells.buffers()[0]], children=[cells.values])
            return pa.ExtensionArray.from_storage(t, storage)
        missing = rng.random(n) < nulls
        if types.is_null(t):
            return pa.nulls(n)
        if types.is_union(t):
            return self.union(t, n)
        if types.is_run_end_encoded(t):
            return self.runs(t, n, nulls)
        if types.is_dictionary(t):
            return self.dictionary(t, n, missing)
        if types.is_list_view(t) or types.is_large_list_view(t):
            values = self.child(t.value_field, int(rng.integers(0, 2 * n + 3)))
            offset = np.int32 if types.is_list_view(t) else np.int64
            sizes = np.minimum(rng.choice([0, 1, 3], n), len(values))
            starts = rng.integers(0, len(values) - sizes + 1)
            buffers = [self.validity(missing), pa.py_buffer(starts.astype(offset).tobytes()), pa.py_buffer(sizes.astype(offset).tobytes())]
            return pa.Array.from_buffers(t, n, buffers, children=[values])
        if types.is_list(t) or types.is_large_list(t) or types.is_map(t):
            offsets = self.offsets(n)
            total = int(offsets[-1]) + int(self.pick(0, 0, 3))
            if types.is_map(t):
                keys, items = self.child(t.key_field, total), self.child(t.item_field, total)
                values = pa.Array.from_buffers(pa.struct([t.key_field, t.item_field]), total, [None], children=[keys, items])
            else:
                values = self.child(t.value_field, total)
            raw = offsets.astype(np.int64 if types.is_large_list(t) else np.int32)
            return pa.Array.from_buffers(t, n, [self.validity(missing), pa.py_buffer(raw.tobytes())], children=[values])
        if types.is_fixed_size_list(t):
            return pa.Array.from_buffers(t, n, [self.validity(missing)], children=[self.child(t.value_field, n * t.list_size)])
        if types.is_struct(t):
            return pa.Array.from_buffers(t, n, [self.validity(missing)], children=[self.child(t.field(i), n) for i in range(t.num_fields)])
        return self.plain(t, n, missing)

    def plain(self, t: pa.DataType, n: int, missing: np.ndarray) -> pa.Array:
        """Values of a type without children."""
        rng = self.rng
        if types.is_boolean(t):
            return pa.array(rng.integers(0, 2, n).astype(bool), mask=missing)
        if types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
            return pa.array([None if m else v for v, m in zip(rng.choice(TEXT, n).tolist(), missing)], t)
        if types.is_binary(t) or types.is_large_binary(t) or types.is_binary_view(t):
            return pa.array([None if m else rng.bytes(int(k)) for m, k in zip(missing, rng.integers(0, 40, n))], t)
        if t == pa.month_day_nano_interval():
            parts = numbers(rng, pa.int32(), 4 * n)
            return self.raw(t, n, parts.tobytes(), missing)
        if types.is_decimal(t):
            limit = 10**t.precision - 1
            values = [int.from_bytes(rng.bytes(32)) % (limit + 1) * int(s) for s in rng.choice([-1, 1], n)]
            values[:3] = [limit, -limit, 0][: len(values)]
            return self.raw(t, n, b"".join(v.to_bytes(t.byte_width, "little", signed=True) for v in values), missing)
        if types.is_fixed_size_binary(t):
            return self.raw(t, n, rng.bytes(n * t.byte_width), missing)
        if types.is_time(t):
            per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[t.unit]
            values = rng.integers(0, per_day, n)
            return self.raw(t, n, values.astype(f"<i{t.bit_width // 8}").tobytes(), missing)
        if types.is_date64(t):
            return self.raw(t, n, (rng.integers(-(10**6), 10**6, n) * 86_400_000).tobytes(), missing)
        if types.is_temporal(t):
            values = numbers(rng, pa.int32() if t.bit_width == 32 else pa.int64(), n)
            return self.raw(t, n, values.tobytes(), missing)
        values = numbers(rng, t, n)
        rng.shuffle(values)
        return self.raw(t, n, values.tobytes(), missing)

    def raw(self, t: pa.DataType, n: int, content: bytes, missing: np.ndarray) -> pa.Array:
        return pa.Array.from_buffers(t, n, [self.validity(missing), pa.py_buffer(content)])

    def union(self, t: pa.DataType, n: int) -> pa.Array:
        which = self.rng.integers(0, t.num_fields, n)
        codes = pa.array(np.array(t.type_codes, np.int8)[which])
        names = [t.field(i).name for i in range(t.num_fields)]
        if t.mode == "sparse":
            children = [self.child(t.field(i), n) for i in range(t.num_fields)]
            return pa.UnionArray.from_sparse(codes, children, names, t.type_codes)
        children = [self.child(t.field(i), int((which == i).sum()) + int(self.pick(0, 2))) for i in range(t.num_fields)]
        offsets = np.zeros(n, np.int32)
        for i in range(t.num_fields):
            offsets[which == i] = np.arange((which == i).sum())
        return pa.UnionArray.from_dense(codes, pa.array(offsets), children, names, t.type_codes)

    def runs(self, t: pa.DataType, n: int, nulls: float) -> pa.Array:
        ends = np.cumsum(self.rng.integers(1, 6, n))
        ends = np.append(ends[ends < n], n) if n else ends
        values = self.array(t.value_type, len(ends), nulls)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, t.run_end_type), values, t)

    def dictionary(self, t: pa.DataType, n: int, missing: np.ndarray) -> pa.Array:
        key = str(t)
        if key not in self.dictionaries or self.chance(0.3):
            self.dictionaries[key] = self.array(t.value_type, int(self.rng.integers(1, 12)), self.pick(0, 0, 0.2))
        values = self.dictionaries[key]
        codes = self.rng.integers(0, len(values), n).astype(t.index_type.to_pandas_dtype())
        indices = self.raw(t.index_type, n, codes.tobytes(), missing)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=t.ordered)

    def table(self) -> pa.Table:
        schema = self.schema()
        batches = []
        for _ in range(int(self.pick(0, 1, 1, 2, 4))):
            n = int(self.pick(0, 1, 8, 30, 100))
            columns = [self.child(f, n) for f in schema]
            if columns:
                batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
        return table

    def changed(self, table: pa.Table, values) -> tuple[pa.Table, str, int] | None:
        """A copy of the table with one other value, and its column and row. values returns
        the values of an array in a form that can be compared."""
        for i in self.rng.permutation(table.num_columns):
            f = table.schema.field(int(i))
            if table.num_rows == 0:
                continue
            row = int(self.rng.integers(table.num_rows))
            column = table.column(int(i))
            old = [v for c in column.slice(row, 1).chunks for v in values(c)]
            for _ in range(20):
                new = self.array(f.type, 1, 0.5 if f.nullable else 0)
                if values(new) != old:
                    chunks = [*column.slice(0, row).chunks, new, *column.slice(row + 1).chunks]
                    return table.set_column(int(i), f, pa.chunked_array(chunks, f.type)), f.name, row
        return None
