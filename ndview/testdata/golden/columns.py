"""Writes columns.json: results of pyarrow's compute functions on columns with nulls.

Run from the root of the repository:
    .venv/bin/python ndview/testdata/golden/columns.py > ndview/testdata/golden/columns.json

A column is [type, elements]: null or the text of a number, or of the integer that a
time is stored as. A case is [function, columns, result], or [function, column, options,
[type, element]] for an aggregate.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

r = np.random.default_rng(21)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double"]
TYPES = {str(t): t for t in [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
                             pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
                             pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("us"), pa.duration("s"), pa.duration("ms")]}
DAY = 86_400_000
COUNT = 37


def column(name):
    """Random elements, extremes among them, and nulls."""
    t = TYPES[name]
    valid = r.random(COUNT) > r.choice([0, 0.3, 1], p=[0.2, 0.7, 0.1])
    if name == "bool":
        values = r.integers(0, 2, COUNT).astype(bool)
    elif name in FLOATS:
        values = r.choice([0.0, -0.0, 1.5, -2.25, 3.0, np.inf, -np.inf, np.nan, 1e30], COUNT)
    elif name in INTEGERS:
        limits = np.iinfo(name)
        values = r.choice(np.array([0, 1, 2, 3, 7, 100, limits.min, limits.max, limits.min + 1, limits.max // 2], name), COUNT)
        if limits.min < 0:
            values = np.where(r.random(COUNT) < 0.3, -(values // 2), values)
    elif name == "date64[ms]":
        values = r.integers(-5, 5, COUNT) * DAY
    elif name.startswith("time"):
        values = r.integers(0, 5, COUNT) + 1000
    else:
        values = r.integers(-5, 5, COUNT)
    plain = {"date32[day]": pa.int32(), "time32[s]": pa.int32(), "time32[ms]": pa.int32()}.get(name, pa.int64())
    mask = ~valid
    if name in INTEGERS + FLOATS + ["bool"]:
        return pa.array(values, type=t, mask=mask)
    return pa.array(values.astype("int32" if plain == pa.int32() else "int64"), type=plain, mask=mask).cast(t)


def texts(arr):
    """The elements as texts, times as integers."""
    t = arr.type
    if pa.types.is_temporal(t):
        arr = arr.view(pa.int32() if t.bit_width == 32 else pa.int64())
    return [str(t), [None if v is None else repr(v) for v in arr.to_pylist()]]


cases, aggregates = [], []


def add(function, *columns):
    """Adds a case unless pyarrow has no such function or returns an error."""
    try:
        result = getattr(pc, function)(*columns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    cases.append([function, [texts(c) for c in columns], texts(result)])


for name in INTEGERS + FLOATS:
    for function in ["add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
        divisor = column(name)
        if function == "divide" and name in INTEGERS:
            divisor = pc.if_else(pc.equal(divisor, pa.scalar(0, divisor.type)), pa.scalar(1, divisor.type), divisor)
        add(function, column(name), divisor)
    add("negate", column(name))
    add("abs", column(name))
    add("if_else", column("bool"), column(name), column(name))
for x, y in [("int8", "uint8"), ("int16", "uint32"), ("int32", "float"), ("uint8", "double"), ("int8", "int32")]:
    for function in ["add", "multiply"]:
        add(function, column(x), column(y))
for function in ["and_", "or_", "xor", "and_kleene", "or_kleene"]:
    for _ in range(4):
        add(function, column("bool"), column("bool"))
add("invert", column("bool"))
TIMES = [n for n, t in TYPES.items() if pa.types.is_temporal(t)]
for x in TIMES:
    for y in TIMES:
        for function in ["add", "subtract", "divide"]:
            if not (x.startswith("date") or y.startswith("date")) or (x == y):
                add(function, column(x), column(y))
    for function in ["equal", "less", "greater_equal"]:
        add(function, column(x), column(x))
    add("if_else", column("bool"), column(x), column(x))
for name in INTEGERS + FLOATS + ["bool"] + TIMES:
    for function in ["sum", "mean", "min", "max"]:
        for skip in [True, False]:
            for least in [0, 1, 20]:
                c = column(name)
                try:
                    v = getattr(pc, function)(c, skip_nulls=skip, min_count=least)
                except pa.ArrowNotImplementedError:
                    continue
                one = pa.scalar(None, v.type) if not v.is_valid else v
                aggregates.append([function, texts(c), [skip, least], texts(pa.repeat(one, 1))])
print(json.dumps({"cases": cases, "aggregates": aggregates}, separators=(",", ":")))
