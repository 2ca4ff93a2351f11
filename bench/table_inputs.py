"""Writes the inputs of tables_cpu.py: nested columns, text and dictionaries.

Batches have 1 Mi elements at the leaves or fewer. The seed is fixed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import gen

WORDS = ("river", "stone", "quiet", "lantern", "meadow", "copper", "winter", "harbour", "little", "seven", "garden", "amber")


def lists(rng: np.random.Generator, rows: int, mean: int) -> tuple[pa.Array, int, pa.Array]:
    """Offsets of lists of about mean elements, their total, and which rows are null."""
    sizes = rng.poisson(mean, rows).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.array(offsets), int(offsets[-1]), pa.array(rng.random(rows) < 0.01)


def measures(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.round(rng.normal(12, 9, n), 1).astype(np.float32)


def texts(rng: np.random.Generator, n: int, words: int) -> pa.Array:
    """Text of some words and a number, like names in recorded data."""
    chosen = pa.array(WORDS).take(pa.array(rng.integers(0, len(WORDS), n * words)))
    parts = [chosen.take(pa.array(np.arange(i, n * words, words))) for i in range(words)]
    numbers = pa.array(rng.integers(0, 100_000, n)).cast(pa.string())
    return pa.compute.binary_join_element_wise(*parts, numbers, " ")


def list_batch(rng: np.random.Generator) -> pa.RecordBatch:
    offsets, n, null = lists(rng, 1 << 17, 8)
    return pa.record_batch({"samples": pa.ListArray.from_arrays(offsets, pa.array(measures(rng, n)), mask=null)})


def struct_batch(rng: np.random.Generator) -> pa.RecordBatch:
    offsets, n, null = lists(rng, 1 << 16, 8)
    fields = {"id": rng.integers(0, 1 << 30, n).cumsum(), "value": measures(rng, n), "kind": rng.integers(0, 8, n).astype(np.int8)}
    events = pa.StructArray.from_arrays([pa.array(v) for v in fields.values()], list(fields))
    return pa.record_batch({"events": pa.ListArray.from_arrays(offsets, events, mask=null)})


def map_batch(rng: np.random.Generator) -> pa.RecordBatch:
    offsets, n, _ = lists(rng, 1 << 15, 8)
    keys = pa.array(WORDS).take(pa.array(rng.integers(0, len(WORDS), n)))
    return pa.record_batch({"counts": pa.MapArray.from_arrays(offsets, keys, pa.array(rng.integers(0, 1000, n)))})


def text_batch(rng: np.random.Generator) -> pa.RecordBatch:
    return pa.record_batch({"name": texts(rng, 1 << 17, 1), "address": texts(rng, 1 << 17, 3)})


def write(path: Path, batch: Callable[[np.random.Generator], pa.RecordBatch], size: int) -> int:
    """Writes batches of a kind as an IPC file of about size bytes, and returns their size
    in memory."""
    rng = np.random.default_rng(24)
    total, first = 0, batch(rng)
    with pa.ipc.new_file(str(path), first.schema) as sink:
        while total < size:
            sink.write_batch(first)
            total += first.nbytes
            first = batch(rng)
    return total


def write_dictionary(path: Path, distinct: int, rows: int) -> int:
    """Writes a dictionary of distinct texts, of which rows use all."""
    rng = np.random.default_rng(24)
    numbers = pa.array(rng.permutation(10 * distinct)[:distinct]).cast(pa.string())
    values = pa.compute.binary_join_element_wise(pa.array(WORDS).take(pa.array(rng.integers(0, len(WORDS), distinct))), numbers, "-")
    codes = np.concatenate([np.arange(distinct), rng.integers(0, distinct, rows - distinct)]).astype(np.int32)
    table = pa.table({"sku": pa.DictionaryArray.from_arrays(pa.array(codes), values)})
    with pa.ipc.new_file(str(path), table.schema) as sink:
        sink.write_table(table, max_chunksize=1 << 20)
    return table.nbytes


def stations(folder: Path, batches: int) -> int:
    """Writes the first batches of gen.py's table as IPC and Parquet."""
    total = 0
    chosen: Iterator[pa.RecordBatch] = (b for b, _ in zip(gen.batches(), range(batches)))
    with (
        pa.ipc.new_file(str(folder / "stations.arrow"), gen.SCHEMA) as ipc,
        pa.parquet.ParquetWriter(folder / "stations.parquet", gen.SCHEMA) as parquet,
    ):
        for b in chosen:
            ipc.write_batch(b)
            parquet.write_batch(b)
            total += b.nbytes
    return total
