"""Writes autochunks.json: the chunk shapes that zarr-python chooses. Run with zarr 3.4.2."""

import json
import random
import warnings
from pathlib import Path

import zarr

warnings.simplefilter("ignore")
random.seed(3)
inputs = [("float32", (10000, 10000)), ("int16", (10**9,)), ("uint8", (1000, 1000, 1000)), ("string", (1000000,)),
          ("float64", ()), ("int32", (0, 5)), ("int8", (7,)), ("int8", (1, 1, 10**9))]
for _ in range(60):
    axes = random.randint(1, 4)
    shape = tuple(int(10 ** random.uniform(0, 10 / axes)) for _ in range(axes))
    inputs.append((random.choice(["uint8", "int16", "float32", "float64", "complex128"]), shape))
cases = []
for name, shape in inputs:
    plain = zarr.create_array({}, shape=shape, dtype=name)
    sharded = zarr.create_array({}, shape=shape, dtype=name, shards="auto")
    cases.append(dict(DataType=name, Shape=shape, Chunks=plain.chunks, Shards=sharded.shards, ShardChunks=sharded.chunks))
lines = ",\n".join(json.dumps(case) for case in cases)
Path(__file__).with_suffix(".json").write_text(f"[\n{lines}\n]\n")
