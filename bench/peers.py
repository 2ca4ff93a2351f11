"""The peers of `arrow2zarr convert`: conversions as a careful Python user writes them.

Usage: peers.py FORM INPUT OUTPUT CODEC CHUNK_ROWS

FORM is zarr-python-by-column, zarr-python-by-batch or tensorstore-by-batch; CODEC is
none or zstd1; INPUT is a file that gen.py wrote. It prints the seconds of the
conversion, without imports and the start of Python. It writes no consolidated metadata
and no attributes, which arrow2zarr writes.

IPC files are memory-mapped and read without a copy; Parquet is decoded on all cores.
Work is split at chunk boundaries.
"""

import concurrent.futures
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet


def batches(path: Path) -> tuple[pa.Schema, int, Iterator[pa.RecordBatch | pa.Table]]:
    if path.suffix == ".parquet":
        file = pa.parquet.ParquetFile(path, memory_map=True)
        return file.schema_arrow, file.metadata.num_rows, map(file.read_row_group, range(file.num_row_groups))
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
    return file.schema, rows, map(file.get_batch, range(file.num_record_batches))


def values(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The values, without a copy unless they are bits or some are null; a row group's
    column is one chunk."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column.to_numpy(zero_copy_only=not pa.types.is_boolean(column.type) and column.null_count == 0)


def dtype_of(field: pa.Field) -> np.dtype:
    return values(pa.array([], field.type)).dtype


def zarr_arrays(schema: pa.Schema, rows: int, output: Path, codec: str, chunk_rows: int) -> list:
    group = zarr.create_group(str(output))
    return [
        group.create_array(
            f.name,
            shape=(rows,),
            chunks=(chunk_rows,),
            dtype=dtype_of(f),
            compressors=zarr.codecs.ZstdCodec(level=1) if codec == "zstd1" else None,
            # Otherwise each chunk is compared with the fill value first.
            config={"write_empty_chunks": True},
        )
        for f in schema
    ]


def zarr_by_column(path: Path, output: Path, codec: str, chunk_rows: int) -> None:
    """Writes one whole column after the other: zarr-python distributes the chunks of an
    assignment over its threads."""
    if path.suffix == ".parquet":
        table = pa.parquet.read_table(path, memory_map=True)
    else:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    arrays = zarr_arrays(table.schema, table.num_rows, output, codec, chunk_rows)
    for array, column in zip(arrays, table.columns):
        array[:] = column.to_numpy()


def zarr_by_batch(path: Path, output: Path, codec: str, chunk_rows: int) -> None:
    """Writes batch by batch in bounded memory, one thread per column."""
    schema, rows, pieces = batches(path)
    arrays = zarr_arrays(schema, rows, output, codec, chunk_rows)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        at = 0
        for piece in pieces:
            end = at + piece.num_rows

            def write(i: int) -> None:
                arrays[i][at:end] = values(piece.column(i))

            list(pool.map(write, range(len(arrays))))
            at = end


def tensorstore_by_batch(path: Path, output: Path, codec: str, chunk_rows: int) -> None:
    """Writes batch by batch, all columns at once: tensorstore has its own threads."""
    schema, rows, pieces = batches(path)
    # Durability is not measured: no fsync after each chunk.
    context = tensorstore.Context({"file_io_sync": False})
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if codec == "zstd1":
        codecs.append({"name": "zstd", "configuration": {"level": 1, "checksum": False}})
    opening = []
    for f in schema:
        # tensorstore does not support times; their integers are written.
        dtype = np.dtype("<i8") if pa.types.is_timestamp(f.type) else dtype_of(f)
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{output}/{f.name}/"},
            "metadata": {
                "shape": [rows],
                "data_type": dtype.name,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk_rows]}},
                "codecs": codecs,
            },
            "store_data_equal_to_fill_value": True,
        }
        opening.append(tensorstore.open(spec, create=True, context=context))
    arrays = [(f.result(), f.result().dtype.numpy_dtype) for f in opening]
    pending, at = [], 0
    for piece in pieces:
        end = at + piece.num_rows
        # Threads write one batch while the next is read; at most two batches are
        # in flight, which bounds memory.
        for future in pending:
            future.result()
        pending = [
            a[at:end].write(values(column).view(dtype), can_reference_source_data_indefinitely=True)
            for (a, dtype), column in zip(arrays, piece.columns)
        ]
        at = end
    for future in pending:
        future.result()


if __name__ == "__main__":
    form, path, output, codec, chunk_rows = sys.argv[1:]
    if form.startswith("tensorstore"):
        import tensorstore
    else:
        import zarr
        import zarr.codecs
    convert = {
        "zarr-python-by-column": zarr_by_column,
        "zarr-python-by-batch": zarr_by_batch,
        "tensorstore-by-batch": tensorstore_by_batch,
    }[form]
    start = time.perf_counter()
    convert(Path(path), Path(output), codec, int(chunk_rows))
    print(time.perf_counter() - start)
