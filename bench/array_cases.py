"""The cases of BenchmarkArray in package ndview. The name of a case is KIND/... as
listed below, with NumPy's dtype names and with extents joined by x.

permute/DTYPE/SHAPE/AXES          a copy of the transposed array, in C order
arbitrary/DTYPE/SHAPE/AXES        the same, of random extents and axes
strided/gather/DTYPE/SHAPE/STEP   a[:, ::STEP] to an array without gaps
strided/scatter/...               the reverse assignment
astype/FROM/TO/SHAPE
elementwise/OP/DTYPE/SHAPE/LAYOUT the second operand is dense, a row, a column
                                  or a scalar; where also has a mask
reduce/OP/DTYPE/SHAPE/AXIS        AXIS is a number or all
allequal/DTYPE/SHAPE              NumPy's array_equal; equal compares bits
fill/DTYPE/SHAPE, zeros/...
take/DTYPE/SHAPE/INDEX/COUNT      COUNT random indices of axis 0
compress/DTYPE/SHAPE/STEP         by a mask that is true every STEP elements
nonzero/N/STEP                    the indices where such a mask is true
fillwhere/DTYPE/N/STEP            sets the elements that such a mask selects
put/DTYPE/N/INDEX/COUNT           sets COUNT random elements
byteswap/DTYPE/SHAPE              in place
triu/DTYPE/SHAPE                  a copy with zeros below the diagonal
concatenate/DTYPE/SHAPE/AXIS      joins two such arrays
unpackbits/BYTES, packbits/BYTES  bitmap to bytes and back; BYTES are read
small/OP/DTYPE/SHAPE              microseconds per enqueued call

In records, the names of CPU cases begin with cpu-.
"""

import dataclasses
import math
import re

SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4,
         "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
COMPARISONS = {"less", "equal"}
UNARY = {"negative", "absolute", "sqrt", "exp", "sin"}
# The dtype in which NumPy sums small integers.
SUMS = {"bool": "int64", "int8": "int64", "int16": "int64", "int32": "int64", "uint8": "uint64", "uint16": "uint64", "uint32": "uint64"}


@dataclasses.dataclass
class Case:
    kind: str
    op: str = ""
    dtype: str = ""
    other: str = ""  # the dtype of results, or of indices
    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    axis: int | None = None
    step: int = 0
    count: int = 0
    layout: str = ""
    bytes: int = 0  # read plus written


def extents(text: str) -> tuple[int, ...]:
    return tuple(int(d) for d in text.split("x"))


def parse(name: str) -> Case:
    kind, *rest = name.split("/")
    c = Case(kind)
    match kind:
        case "permute" | "arbitrary":
            c.dtype, c.shape, c.axes = rest[0], extents(rest[1]), tuple(int(a) for a in rest[2])
            c.bytes = 2 * math.prod(c.shape) * SIZES[c.dtype]
        case "strided":
            c.op, c.dtype, c.shape, c.step = rest[0], rest[1], extents(rest[2]), int(rest[3])
            c.bytes = 2 * c.shape[0] * -(-c.shape[1] // abs(c.step)) * SIZES[c.dtype]
        case "astype":
            c.dtype, c.other, c.shape = rest[0], rest[1], extents(rest[2])
            c.bytes = math.prod(c.shape) * (SIZES[c.dtype] + SIZES[c.other])
        case "elementwise" | "small":
            c.op, c.dtype, c.shape = rest[0], rest[1], extents(rest[2])
            c.layout = rest[3] if len(rest) > 3 else "dense"
            n, size = math.prod(c.shape), SIZES[c.dtype]
            second = {"dense": n, "row": math.prod(c.shape[1:]), "column": c.shape[0], "scalar": 0}[c.layout]
            c.bytes = size * (n + second * (c.op not in UNARY)) + n * (1 if c.op in COMPARISONS else size) + n * (c.op == "where")
        case "reduce":
            c.op, c.dtype, c.shape = rest[0], rest[1], extents(rest[2])
            c.axis = None if rest[3] == "all" else int(rest[3])
            kept = 1 if c.axis is None else math.prod(c.shape) // c.shape[c.axis]
            out = 8 if c.op.startswith("arg") else SIZES[SUMS.get(c.dtype, c.dtype) if c.op == "sum" else c.dtype]
            c.bytes = math.prod(c.shape) * SIZES[c.dtype] + kept * out
        case "allequal" | "equal":
            c.dtype, c.shape = rest[0], extents(rest[1])
            c.bytes = 2 * math.prod(c.shape) * SIZES[c.dtype]
        case "fill" | "zeros":
            c.dtype, c.shape = rest[0], extents(rest[1])
            c.bytes = math.prod(c.shape) * SIZES[c.dtype]
        case "take":
            c.dtype, c.shape, c.other, c.count = rest[0], extents(rest[1]), rest[2], int(rest[3])
            c.bytes = c.count * (SIZES[c.other] + 2 * SIZES[c.dtype] * math.prod(c.shape[1:]))
        case "compress":
            c.dtype, c.shape, c.step = rest[0], extents(rest[1]), int(rest[2])
            c.bytes = c.shape[0] + 2 * -(-c.shape[0] // c.step) * SIZES[c.dtype]
        case "nonzero":
            c.dtype, c.shape, c.step = "bool", extents(rest[0]), int(rest[1])
            c.bytes = c.shape[0] + 8 * -(-c.shape[0] // c.step)
        case "fillwhere":
            c.dtype, c.shape, c.step = rest[0], extents(rest[1]), int(rest[2])
            c.bytes = c.shape[0] + SIZES[c.dtype] * -(-c.shape[0] // c.step)
        case "put":
            c.dtype, c.shape, c.other, c.count = rest[0], extents(rest[1]), rest[2], int(rest[3])
            c.bytes = c.count * (SIZES[c.other] + 2 * SIZES[c.dtype])
        case "byteswap":
            c.dtype, c.shape = rest[0], extents(rest[1])
            c.bytes = 2 * math.prod(c.shape) * SIZES[c.dtype]
        case "triu":
            c.dtype, c.shape = rest[0], extents(rest[1])
            c.bytes = 3 * math.prod(c.shape) * SIZES[c.dtype] // 2  # reads half, writes all
        case "concatenate":
            c.dtype, c.shape, c.axis = rest[0], extents(rest[1]), int(rest[2])
            c.bytes = 4 * math.prod(c.shape) * SIZES[c.dtype]
        case "unpackbits" | "packbits":
            n = int(rest[0])
            c.shape, c.dtype = (n,), "uint8"
            c.bytes = 9 * n if kind == "unpackbits" else n + n // 8
        case _:
            raise ValueError(f"{name}: no such kind of benchmark")
    return c


def sectors(c: Case) -> float:
    """The memory traffic of a strided case over the size of its elements; 1 if they
    are contiguous. Memory writes units of 32 bytes, which it first reads if they are
    written only in part. It reads units of 64 bytes, the default of drivers
    (cudaLimitMaxL2FetchGranularity). With that default an H200 reads 16 of every 48
    bytes in the time of all; with units of 32 bytes it takes 0.70 of the time."""
    if c.kind != "strided" or abs(c.step) == 1:
        return 1
    size = SIZES[c.dtype]
    unit = 64 if c.op == "gather" else 32
    touched = min(abs(c.step) * size, unit) / size  # size of a unit over the bytes used of it
    return (1 + touched * (2 if c.op == "scatter" else 1)) / 2


def record_name(name: str) -> str:
    """The name of a benchmark's record."""
    for old, new in (("elementwise/", "elemwise/"), ("allequal/", "equal-all/"), ("equal/", "equal-bits/"), ("unpackbits/", "bits-unpack/"),
                     ("packbits/", "bits-pack/"), ("zeros/", "fill-zeros/")):  # fmt: skip
        if name.startswith(old):
            name = new + name.removeprefix(old)
            break
    c = parse(name) if name.startswith("permute") else None
    if c and SIZES[c.dtype] <= 2 and any(d % 2 for d in c.shape):
        name = name.replace("permute/", "permute-odd/")
    return slug(name)


def slug(name: str) -> str:
    """The words of a name joined by dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("/-", "/minus-"))
