"""What the benchmarks of package ndview measure, by name: KIND/... as follows,
with NumPy's names of dtypes and extents joined by x.

permute/DTYPE/SHAPE/AXES          a copy of the transposed array, in C order
arbitrary/DTYPE/SHAPE/AXES        the same, of random extents and axes
strided/gather/DTYPE/SHAPE/STEP   a[:, ::STEP] to an array without gaps
strided/scatter/...               the other way
astype/FROM/TO/SHAPE
elementwise/OP/DTYPE/SHAPE/LAYOUT the second operand is dense, a row, a column
                                  or a scalar; where has a mask besides
reduce/OP/DTYPE/SHAPE/AXIS        AXIS is a number or all
allequal/DTYPE/SHAPE              with NumPy's meaning; equal is of bits
fill/DTYPE/SHAPE, zeros/...
take/DTYPE/SHAPE/INDEX/COUNT      COUNT random indices of axis 0
compress/DTYPE/SHAPE/STEP         by a mask that is true every STEP elements
nonzero/N/STEP                    the places where such a mask is true
fillwhere/DTYPE/N/STEP            sets the elements that it selects
put/DTYPE/N/INDEX/COUNT           sets COUNT elements at random
byteswap/DTYPE/SHAPE              in place
triu/DTYPE/SHAPE                  a copy with zeros below the diagonal
concatenate/DTYPE/SHAPE/AXIS      of two such arrays
unpackbits/BYTES, packbits/BYTES  bitmap to bytes; BYTES are those that are read
small/OP/DTYPE/SHAPE              microseconds from call to call, queued

On the CPU the names begin with cpu-, in records only.
"""

import dataclasses
import math
import re

SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4,
         "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
COMPARISONS = {"less", "equal"}
UNARY = {"negative", "absolute", "sqrt", "exp", "sin"}
# What NumPy makes of the elements of small integers.
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
            c.bytes = 3 * math.prod(c.shape) * SIZES[c.dtype] // 2  # half is read, all is written
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
    """How many times the bytes memory must move for the elements, 1 unless they
    lie scattered: it writes 32 bytes at once, of which it first reads those that
    are written in part only, and reads 64, since that is what drivers set
    (cudaLimitMaxL2FetchGranularity; an H200 reads 16 bytes of each 48 in the time
    of all, with a limit of 32 bytes in 0.70 of it)."""
    if c.kind != "strided" or abs(c.step) == 1:
        return 1
    size = SIZES[c.dtype]
    unit = 64 if c.op == "gather" else 32
    touched = min(abs(c.step) * size, unit) / size  # a unit holds so many times more than is wanted of it
    return (1 + touched * (2 if c.op == "scatter" else 1)) / 2


def record_name(name: str) -> str:
    """The benchmark's name as that of a record."""
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
    """A name as words with dashes between them."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("/-", "/minus-"))
