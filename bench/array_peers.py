"""Measures the cases of array_cases.py with other libraries.

Usage: array_peers.py {cupy|torch|numpy} <names. Names are case names, one per line.
It prints one JSON object: the seconds of each round per name, after two warm-up
rounds, or null if the library lacks the operation. Results are written to existing
arrays if the library supports that. bfloat16 in NumPy is from ml_dtypes.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable

from array_cases import Case, parse

ROUNDS = 9


class Missing(Exception):
    """The library lacks the operation."""


class NumPy:
    """NumPy, and the base of CuPy, which has the same functions."""

    def __init__(self, module: str):
        self.xp = importlib.import_module(module)
        self.random = self.xp.random

    def wait(self) -> None:
        pass

    def seconds(self, work: Callable[[], object], rounds: int) -> list[float]:
        taken = []
        for _ in range(rounds + 2):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
        return taken[2:]

    def dtype(self, name: str):
        if name == "bfloat16":
            return self.xp.dtype(importlib.import_module("ml_dtypes").bfloat16)
        return self.xp.dtype(name)

    def full(self, shape, dtype, value=1):
        return self.xp.full(shape, value, self.dtype(dtype))

    def random_like(self, shape, dtype):
        """Values that vary but are cheap to generate."""
        n = 1
        for d in shape:
            n *= d
        x = self.xp.arange(n, dtype="int32") % 113
        return x.astype(self.dtype(dtype)).reshape(shape)

    def permute(self, c: Case):
        x = self.full(c.shape, c.dtype).transpose(c.axes)
        out = self.xp.empty(x.shape, x.dtype)
        return lambda: self.xp.copyto(out, x)

    def arbitrary(self, c: Case):
        return self.permute(c)

    def strided(self, c: Case):
        x = self.full(c.shape, c.dtype)
        y = self.full((c.shape[0], -(-c.shape[1] // abs(c.step))), c.dtype)
        part = x[:, :: c.step]
        return (lambda: self.xp.copyto(y, part)) if c.op == "gather" else (lambda: self.xp.copyto(part, y))

    def astype(self, c: Case):
        x = self.random_like(c.shape, c.dtype)
        out = self.xp.empty(c.shape, self.dtype(c.other))
        return lambda: self.xp.copyto(out, x, casting="unsafe")

    OPERATIONS = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "less": "less", "equal": "equal",
                  "maximum": "maximum", "negative": "negative", "absolute": "absolute", "sqrt": "sqrt", "exp": "exp", "sin": "sin"}  # fmt: skip

    def elementwise(self, c: Case):
        x, y = self.random_like(c.shape, c.dtype), self.operand(c)
        if c.op == "where":
            mask = self.random_like(c.shape, "bool")
            return lambda: self.xp.where(mask, x, y)
        f = getattr(self.xp, self.OPERATIONS[c.op])
        if c.op in ("negative", "absolute", "sqrt", "exp", "sin"):
            out = f(x)
            return lambda: f(x, out=out)
        out = f(x, y)
        return lambda: f(x, y, out=out)

    def operand(self, c: Case):
        match c.layout:
            case "row":
                return self.random_like(c.shape[1:], c.dtype)
            case "column":
                return self.random_like((c.shape[0], 1), c.dtype)
            case "scalar":
                return 3
        return self.random_like(c.shape, c.dtype)

    def reduce(self, c: Case):
        x = self.random_like(c.shape, c.dtype)
        f = getattr(self.xp, c.op)
        return lambda: f(x, axis=c.axis)

    def allequal(self, c: Case):
        x, y = self.full(c.shape, c.dtype), self.full(c.shape, c.dtype)
        return lambda: bool((x == y).all())

    def equal(self, c: Case):
        x, y = self.full(c.shape, c.dtype).view("uint64"), self.full(c.shape, c.dtype).view("uint64")
        return lambda: bool((x == y).all())

    def fill(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: x.fill(3)

    def zeros(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: x.fill(0)

    def indices(self, c: Case):
        return self.random.randint(0, c.shape[0], c.count).astype(c.other)

    def take(self, c: Case):
        x, i = self.full(c.shape, c.dtype), self.indices(c)
        out = self.xp.empty((c.count, *c.shape[1:]), x.dtype)
        return lambda: self.xp.take(x, i, axis=0, out=out)

    def mask(self, c: Case):
        return self.xp.arange(c.shape[0]) % c.step == 0

    def compress(self, c: Case):
        x, mask = self.full(c.shape, c.dtype), self.mask(c)
        return lambda: x[mask]

    def nonzero(self, c: Case):
        mask = self.mask(c)
        return lambda: self.xp.nonzero(mask)

    def fillwhere(self, c: Case):
        x, mask = self.full(c.shape, c.dtype), self.mask(c)
        return lambda: self.xp.putmask(x, mask, 1 << 62)

    def put(self, c: Case):
        x, i, values = self.full(c.shape, c.dtype), self.indices(c), self.full((c.count,), c.dtype)
        return lambda: self.xp.put(x, i, values)

    def byteswap(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: x.byteswap(inplace=True)

    def triu(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: self.xp.triu(x)

    def concatenate(self, c: Case):
        parts = [self.full(c.shape, c.dtype) for _ in range(2)]
        return lambda: self.xp.concatenate(parts, axis=c.axis)

    def unpackbits(self, c: Case):
        bits = self.random_like(c.shape, "uint8")
        return lambda: self.xp.unpackbits(bits, bitorder="little")

    def packbits(self, c: Case):
        x = self.random_like(c.shape, "uint8") % 2
        return lambda: self.xp.packbits(x, bitorder="little")

    def small(self, c: Case):
        x, y = self.random_like(c.shape, c.dtype), self.random_like(c.shape, c.dtype)
        out = self.xp.empty_like(x)
        f = getattr(self.xp, self.OPERATIONS[c.op])
        return lambda: f(x, y, out=out)


class CuPy(NumPy):
    def wait(self) -> None:
        self.xp.cuda.Device().synchronize()

    def seconds(self, work: Callable[[], object], rounds: int) -> list[float]:
        taken = []
        for _ in range(rounds + 2):
            start, end = self.xp.cuda.Event(), self.xp.cuda.Event()
            start.record()
            work()
            end.record()
            end.synchronize()
            taken.append(self.xp.cuda.get_elapsed_time(start, end) / 1e3)
        return taken[2:]

    def dtype(self, name: str):
        if name == "bfloat16":
            raise Missing
        return self.xp.dtype(name)


class Torch:
    def __init__(self, _module: str):
        self.xp = importlib.import_module("torch")

    def wait(self) -> None:
        self.xp.cuda.synchronize()

    def seconds(self, work: Callable[[], object], rounds: int) -> list[float]:
        taken = []
        for _ in range(rounds + 2):
            start, end = (self.xp.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            end.synchronize()
            taken.append(start.elapsed_time(end) / 1e3)
        return taken[2:]

    def dtype(self, name: str):
        found = getattr(self.xp, name, None)
        if found is None:
            raise Missing
        return found

    def full(self, shape, dtype, value=1):
        return self.xp.full(shape, value, dtype=self.dtype(dtype), device="cuda")

    def random_like(self, shape, dtype):
        n = 1
        for d in shape:
            n *= d
        return (self.xp.arange(n, dtype=self.xp.int32, device="cuda") % 113).to(self.dtype(dtype)).reshape(shape)

    def permute(self, c: Case):
        x = self.full(c.shape, c.dtype).permute(c.axes)
        out = self.xp.empty(x.shape, dtype=x.dtype, device="cuda")
        return lambda: out.copy_(x)

    def arbitrary(self, c: Case):
        return self.permute(c)

    def strided(self, c: Case):
        if c.step < 0:
            raise Missing  # PyTorch has no negative strides
        x = self.full(c.shape, c.dtype)
        y = self.full((c.shape[0], -(-c.shape[1] // c.step)), c.dtype)
        part = x[:, :: c.step]
        return (lambda: y.copy_(part)) if c.op == "gather" else (lambda: part.copy_(y))

    def astype(self, c: Case):
        x = self.random_like(c.shape, c.dtype)
        out = self.xp.empty(c.shape, dtype=self.dtype(c.other), device="cuda")
        return lambda: out.copy_(x)

    OPERATIONS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "less": "lt", "equal": "eq", "maximum": "maximum",
                  "negative": "neg", "absolute": "abs", "sqrt": "sqrt", "exp": "exp", "sin": "sin"}  # fmt: skip
    operand = NumPy.operand

    def elementwise(self, c: Case):
        x, y = self.random_like(c.shape, c.dtype), self.operand(c)
        if c.op == "where":
            mask = self.random_like(c.shape, "bool")
            return lambda: self.xp.where(mask, x, y)
        f = getattr(self.xp, self.OPERATIONS[c.op])
        if c.op in ("negative", "absolute", "sqrt", "exp", "sin"):
            out = f(x)
            return lambda: f(x, out=out)
        out = f(x, y)
        return lambda: f(x, y, out=out)

    def reduce(self, c: Case):
        x = self.random_like(c.shape, c.dtype)
        f = getattr(self.xp, {"max": "amax", "min": "amin"}.get(c.op, c.op))
        return (lambda: f(x)) if c.axis is None else (lambda: f(x, dim=c.axis))

    def allequal(self, c: Case):
        x, y = self.full(c.shape, c.dtype), self.full(c.shape, c.dtype)
        return lambda: self.xp.equal(x, y)

    def equal(self, c: Case):
        x, y = (self.full(c.shape, c.dtype).view(self.xp.int64) for _ in range(2))
        return lambda: self.xp.equal(x, y)

    def fill(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: x.fill_(3)

    def zeros(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: x.zero_()

    def take(self, c: Case):
        x = self.full(c.shape, c.dtype)
        i = self.xp.randint(0, c.shape[0], (c.count,), dtype=self.dtype(c.other), device="cuda")
        out = self.xp.empty((c.count, *c.shape[1:]), dtype=x.dtype, device="cuda")
        return lambda: self.xp.index_select(x, 0, i, out=out)

    def mask(self, c: Case):
        return self.xp.arange(c.shape[0], device="cuda") % c.step == 0

    def compress(self, c: Case):
        x, mask = self.full(c.shape, c.dtype), self.mask(c)
        return lambda: x[mask]

    def nonzero(self, c: Case):
        mask = self.mask(c)
        return lambda: self.xp.nonzero(mask)

    def fillwhere(self, c: Case):
        x, mask = self.full(c.shape, c.dtype), self.mask(c)
        return lambda: x.masked_fill_(mask, 1 << 62)

    def put(self, c: Case):
        x, values = self.full(c.shape, c.dtype), self.full((c.count,), c.dtype)
        i = self.xp.randint(0, c.shape[0], (c.count,), device="cuda")
        return lambda: x.put_(i, values)

    def byteswap(self, c: Case):
        raise Missing

    def triu(self, c: Case):
        x = self.full(c.shape, c.dtype)
        return lambda: self.xp.triu(x)

    def concatenate(self, c: Case):
        parts = [self.full(c.shape, c.dtype) for _ in range(2)]
        return lambda: self.xp.cat(parts, dim=c.axis)

    def unpackbits(self, c: Case):
        raise Missing

    packbits = unpackbits

    def small(self, c: Case):
        x, y = self.random_like(c.shape, c.dtype), self.random_like(c.shape, c.dtype)
        out = self.xp.empty_like(x)
        f = getattr(self.xp, self.OPERATIONS[c.op])
        return lambda: f(x, y, out=out)


def measure(library: NumPy | Torch, name: str, rounds: int = ROUNDS) -> list[float] | None:
    case = parse(name)
    try:
        work = getattr(library, case.kind)(case)
        if case.kind != "small":
            return library.seconds(work, rounds)
    except (Missing, AttributeError, NotImplementedError, RuntimeError, TypeError) as e:
        print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
        return None
    each, taken = 1000, []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        for _ in range(each):
            work()
        library.wait()
        taken.append((time.perf_counter() - start) / each)
    return taken[2:]


LIBRARIES = {"numpy": NumPy, "cupy": CuPy, "torch": Torch}

if __name__ == "__main__":
    library = LIBRARIES[sys.argv[1]](sys.argv[1])
    print(json.dumps({name: measure(library, name) for name in sys.stdin.read().split()}))
