"""The peers of tables_cpu.py: pyarrow, awkward and zarr-python as a careful user combines
them.

Usage: table_peers.py nested|text|dictionary INPUT OUTPUT CODEC
       table_peers.py restore ZARR OUTPUT
       table_peers.py read PARQUET
       table_peers.py libzstd ZARR

The last one is the limit of a conversion with zstd:1: libzstd compresses the chunks of all
arrays on all cores, from memory. It prints the seconds of the work, without imports and the start of Python. Arrays have
chunks of 1 Mi elements, and no attributes but those that reading needs.
"""

import concurrent.futures
import os
import sys
import time
from pathlib import Path

import awkward as ak
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zarr
import zarr.codecs

CHUNK = 1 << 20


def table(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def create(group: zarr.Group, name: str, values: np.ndarray, codec: str, dtype=None) -> None:
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=(CHUNK,),
        dtype=dtype or values.dtype,
        compressors=zarr.codecs.ZstdCodec(level=1) if codec == "zstd:1" else None,
        config={"write_empty_chunks": True},  # otherwise each chunk is compared with the fill value
    )
    array[:] = values


def nested(path: Path, output: Path, codec: str) -> None:
    """Writes each buffer of an awkward array as one array, several at a time."""
    group = zarr.create_group(str(output))
    for name, column in zip((t := table(path)).column_names, t.columns):
        if pa.types.is_map(column.type):  # which awkward does not read
            column = pa.chunked_array([as_list(c) for c in column.chunks])
        form, length, buffers = ak.to_buffers(ak.to_packed(ak.from_arrow(column)), form_key="{id}")
        node = group.create_group(name, attributes={"form": form.to_json(), "length": length})
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda item: create(node, item[0].replace("/", "-"), item[1], codec), buffers.items()))


def as_list(m: pa.MapArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(m.offsets, pa.StructArray.from_arrays([m.keys, m.items], ["key", "value"]))


def text(path: Path, output: Path, codec: str) -> None:
    group = zarr.create_group(str(output))
    for name, column in zip((t := table(path)).column_names, t.columns):
        create(group, name, column.to_numpy(), codec, dtype="string")


def dictionary(path: Path, output: Path, codec: str) -> None:
    group = zarr.create_group(str(output))
    for name, column in zip((t := table(path)).column_names, t.columns):
        merged = column.unify_dictionaries().combine_chunks()
        merged = merged if isinstance(merged, pa.Array) else merged.chunk(0)
        node = group.create_group(name)
        create(node, "codes", merged.indices.to_numpy(zero_copy_only=False), codec)
        create(node, "categories", merged.dictionary.to_numpy(zero_copy_only=False), codec, dtype="string")


def restore(path: Path, output: Path) -> None:
    """Reads arrays of a table, one thread per array, and writes them with pyarrow."""
    group = zarr.open_group(str(path), mode="r")
    names = list(group.attrs["arrow_columns"])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        values = list(pool.map(lambda n: group[n][:], names))
    restored = pa.table({n: pa.array(v) for n, v in zip(names, values)})
    if output.suffix == ".parquet":
        pa.parquet.write_table(restored, output, compression="zstd")
        return
    with pa.ipc.new_file(str(output), restored.schema) as sink:
        sink.write_table(restored, max_chunksize=CHUNK)


def libzstd(path: Path) -> float:
    """Compresses the chunks that a conversion has made, and returns the seconds."""
    group = zarr.open_group(str(path), mode="r")
    arrays = [a for _, a in group.members(max_depth=None) if isinstance(a, zarr.Array)]
    pieces = [a[i : i + a.chunks[0]] for a in arrays if a.dtype.kind != "T" for i in range(0, a.shape[0], a.chunks[0])]
    codec = numcodecs.Zstd(level=1)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        start = time.perf_counter()
        list(pool.map(lambda piece: codec.encode(piece.view("u1")), pieces))
        return time.perf_counter() - start


def read(path: Path) -> None:
    pa.parquet.read_table(path, memory_map=True)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    paths = [a if i == 2 else Path(a) for i, a in enumerate(arguments)]
    if what == "libzstd":
        sys.exit(print(libzstd(*paths)))
    start = time.perf_counter()
    {"nested": nested, "text": text, "dictionary": dictionary, "restore": restore, "read": read}[what](*paths)
    print(time.perf_counter() - start)
