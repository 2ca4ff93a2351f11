"""Reads the table of examples/share, or of quiver-share, in the server's memory.

    pip install ./clients/python pandas      # and CuPy for a GPU
    python examples/consumer/consumer.py /tmp/share.sock

On a GPU, CuPy computes with a column where it lies. On the host, pandas does.
"""

import sys

import quiver_share


def mean_distance(table: quiver_share.Table) -> float:
    """Returns the mean of a column without nulls, computed without a copy of it."""
    total = 0
    for batch in table.batches:
        column = batch["distance"]
        if batch.device.startswith("cuda"):
            import cupy

            total += int(cupy.asarray(column).sum(dtype="i8"))
        else:
            total += int(column.to_pyarrow().to_numpy().sum(dtype="i8"))
    return total / table.num_rows


def main(socket: str) -> None:
    with quiver_share.Client(socket) as client:
        flights = client.table("flights")
        print(f"{flights.num_rows} flights of {mean_distance(flights):.3f} miles")
        frame = flights.to_pyarrow().select(["carrier", "dep_delay"]).to_pandas()
        print(frame.groupby("carrier", observed=True)["dep_delay"].mean().round(3).to_string())
        del flights  # ends the leases


if __name__ == "__main__":
    main(sys.argv[1])
