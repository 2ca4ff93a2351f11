"""The common part of cdevice.py and cdevice_cuda.py: structs of the Arrow C interfaces,
the library of interop/cdevice, and test arrays."""

import ctypes
import decimal

import pyarrow as pa


class Struct:
    """Zeroed memory for a C struct, which means that it is released."""

    SIZE = {"arrow_schema": 72, "arrow_array": 80, "arrow_array_stream": 40, "arrow_device_array": 128, "arrow_device_array_stream": 48}
    RELEASE = {"arrow_schema": 7, "arrow_array": 8, "arrow_array_stream": 3, "arrow_device_array": 8, "arrow_device_array_stream": 4}  # the index of the word

    def __init__(self, kind: str):
        self.kind = kind
        self.memory = (ctypes.c_int64 * (self.SIZE[kind] // 8))()
        self.address = ctypes.addressof(self.memory)

    def release(self) -> None:
        if function := self.memory[self.RELEASE[self.kind]]:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(self.address)


class Quiver:
    def __init__(self, library: str):
        self.library = ctypes.CDLL(library)

    def call(self, name: str, *structs: int) -> None:
        function = getattr(self.library, name)
        function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_void_p] * len(structs)
        if (error := function(*structs)) is not None:
            raise ValueError(error.decode())


def arrays() -> list[pa.Array]:
    """At least one array of every type of pyarrow, with nulls."""
    numbers = [1, None, 3, 0, 5, 6, None, 8, 9, 10]
    texts = ["a", None, "", "straße", "a longer text than a view holds", "f", "g", None, "\0", "j" * 50]
    lists = [[1, None], None, [], [4, 5, 6], [7], [], None, [8, 9], [10], [11]]
    structs = [{"a": n, "b": t} for n, t in zip(numbers, texts)]
    made = [pa.nulls(10), pa.array([bool(n) if n is not None else None for n in numbers])]
    for t in (
        *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
        pa.float16(), pa.float32(), pa.float64(),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
        *(pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "+01:30")),
        *(pa.duration(u) for u in ("s", "ms", "us", "ns")),
    ):  # fmt: skip
        kept = [n if n is None or not pa.types.is_date64(t) else n * 86_400_000 for n in numbers]
        numeric = pa.types.is_integer(t) or pa.types.is_floating(t)
        made.append(pa.array(kept, t) if numeric else pa.array(kept, pa.int64() if t.bit_width == 64 else pa.int32()).cast(t))
    for t in (pa.decimal32(9, 2), pa.decimal64(18, -2), pa.decimal128(38, 5), pa.decimal256(76, 5)):
        made.append(pa.array([None if n is None else decimal.Decimal(n).scaleb(-t.scale) for n in numbers], t))
    made.append(pa.array([None if n is None else pa.MonthDayNano([n, n + 1, n + 2]) for n in numbers]))
    made += [pa.array(texts, t) for t in (pa.string(), pa.large_string(), pa.string_view())]
    blobs = [None if t is None else t.encode() for t in texts]
    made += [pa.array(blobs, t) for t in (pa.binary(), pa.large_binary(), pa.binary_view())]
    made.append(pa.array([None if n is None else bytes([n] * 3) for n in numbers], pa.binary(3)))
    made += [pa.array(lists, t(pa.int32())) for t in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)]
    made.append(pa.array([None if n is None else [n, None, n] for n in numbers], pa.list_(pa.int16(), 3)))
    made.append(pa.array(structs, pa.struct([("a", pa.int32()), pa.field("b", pa.string(), metadata={"k": "v"})])))
    made.append(pa.array([None if n is None else [("k", n), ("l", None)] for n in numbers], pa.map_(pa.string(), pa.int32())))
    made.append(pa.array([None if n is None else [(n, "v")] for n in numbers], pa.map_(pa.int8(), pa.string(), keys_sorted=True)))
    made += [pa.array(texts, pa.string()).dictionary_encode(), pa.DictionaryArray.from_arrays(pa.array([0, None, 1] * 3, pa.int8()), ["x", "y"], ordered=True)]
    codes = pa.array([0, 5, 0, 5, 0, 5, 0, 5, 0, 5], pa.int8())
    made.append(pa.UnionArray.from_sparse(codes, [pa.array(numbers), pa.array(texts)], ["i", "s"], [0, 5]))
    offsets = pa.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], pa.int32())
    made.append(pa.UnionArray.from_dense(codes, offsets, [pa.array(numbers), pa.array(texts)], ["i", "s"], [0, 5]))
    made.append(pa.RunEndEncodedArray.from_arrays(pa.array([3, 4, 10], pa.int32()), pa.array(["a", None, "c"])))
    made.append(pa.array([[s] for s in structs]))
    return made


def same(a, b) -> bool:
    return a.equals(b, check_metadata=True) if isinstance(a, pa.RecordBatch) else a.type.equals(b.type, check_metadata=True) and a.equals(b)
