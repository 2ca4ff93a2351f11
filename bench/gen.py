"""Writes the input of the conversion benchmark as an IPC file and a Parquet file.

Usage: gen.py FOLDER. The table is 1 GiB of measurements from stations: ten columns, 64
bytes per row, 16 Mi rows in batches of 1 Mi, no nulls. Values repeat, drift and are
rounded like recorded data: on random bits, all compressors would perform alike. The
seed is fixed.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

BATCH = 1 << 20
BATCHES = 16
STATIONS = 5000

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("station", pa.int32(), nullable=False),
        pa.field("sensor", pa.int64(), nullable=False),
        pa.field("latitude", pa.float64()),
        pa.field("longitude", pa.float64()),
        pa.field("price", pa.float64()),
        pa.field("temperature", pa.float32()),
        pa.field("pressure", pa.float32()),
        pa.field("count", pa.int32()),
    ]
)


def batches():
    rng = np.random.default_rng(20130101)
    place = np.round(rng.uniform((-60, -180), (70, 180), (STATIONS, 2)), 5)
    climate = rng.normal(12, 9, STATIONS)
    sensors = rng.integers(1 << 40, 1 << 44, 100_000)
    popularity = rng.permutation(STATIONS)
    identity, clock = 1, 1_700_000_000_000_000
    for _ in range(BATCHES):
        # A few stations send most of the rows.
        station = popularity[(STATIONS * rng.random(BATCH) ** 3).astype(np.int32)].astype(np.int32)
        ids = identity + np.cumsum(rng.integers(1, 4, BATCH))
        times = clock + np.cumsum(rng.integers(0, 5_000, BATCH))
        identity, clock = int(ids[-1]), int(times[-1])
        wobble = np.round(rng.normal(0, 2e-4, (BATCH, 2)), 5)
        latitude, longitude = np.round(place[station] + wobble, 5).T
        columns = (
            ids,
            times,
            station,
            sensors[rng.integers(0, len(sensors), BATCH)],
            np.ascontiguousarray(latitude),
            np.ascontiguousarray(longitude),
            np.round(rng.lognormal(3, 1, BATCH), 2),
            np.round(climate[station] + rng.normal(0, 3, BATCH), 1).astype(np.float32),
            np.round(rng.normal(1013, 8, BATCH), 1).astype(np.float32),
            rng.poisson(4, BATCH).astype(np.int32),
        )
        arrays = [pa.array(c).cast(f.type) if pa.types.is_timestamp(f.type) else pa.array(c, f.type) for c, f in zip(columns, SCHEMA)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pa.ipc.new_file(str(folder / "stations.arrow"), SCHEMA) as ipc,
        pa.parquet.ParquetWriter(folder / "stations.parquet", SCHEMA) as parquet,
    ):
        for batch in batches():
            ipc.write_batch(batch)
            parquet.write_batch(batch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
