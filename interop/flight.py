"""Checks ipc/flight against pyarrow's Flight, in both directions.

Quiver reads all flights of a pyarrow server and serves them again. pyarrow reads
these; tables and schemas must be equal to the originals.

Usage: flight.py. It needs Go.
"""

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.flight

from dissociated import tables

ROOT = Path(__file__).resolve().parent.parent


class Server(pa.flight.FlightServerBase):
    """Serves tables. Each batch is an endpoint of its own."""

    def __init__(self, given: dict[bytes, list[pa.RecordBatch]]):
        super().__init__("grpc://127.0.0.1:0")
        self.given = given

    def info(self, name: bytes) -> pa.flight.FlightInfo:
        batches = self.given[name]
        endpoints = [pa.flight.FlightEndpoint(b"%d %s" % (i, name), []) for i in range(len(batches))]
        return pa.flight.FlightInfo(batches[0].schema, pa.flight.FlightDescriptor.for_path(name), endpoints, -1, -1)

    def list_flights(self, context, criteria):
        return (self.info(name) for name in self.given)

    def get_flight_info(self, context, descriptor):
        return self.info(descriptor.path[0])

    def do_get(self, context, ticket):
        number, _, name = ticket.ticket.partition(b" ")
        batch = self.given[name][int(number)]
        return pa.flight.RecordBatchStream(pa.RecordBatchReader.from_batches(batch.schema, [batch]))


def check(address: str, given: dict[bytes, list[pa.RecordBatch]]) -> None:
    with pa.flight.connect(f"grpc://{address}") as client:
        names = [info.descriptor.path[0] for info in client.list_flights()]
        assert names == sorted(given), names
        for name, batches in given.items():
            want = pa.Table.from_batches(batches)
            descriptor = pa.flight.FlightDescriptor.for_path(name)
            assert client.get_schema(descriptor).schema.equals(want.schema, check_metadata=True)
            info = client.get_flight_info(descriptor)
            assert info.schema.equals(want.schema, check_metadata=True), info.schema
            assert info.total_records == want.num_rows, info.total_records
            (endpoint,) = info.endpoints
            got = client.do_get(endpoint.ticket).read_all()
            got.validate(full=True)
            assert same(want, got), f"{name}: want {want}, got {got}"
        try:
            client.get_flight_info(pa.flight.FlightDescriptor.for_path("none"))
        except KeyError as error:  # pyarrow maps NOT_FOUND to KeyError
            assert "none" in str(error), error
        else:
            raise AssertionError("got a flight of an unknown name")


def same(want: pa.Table, got: pa.Table) -> bool:
    """Compares tables. Dictionaries are compared by value, since their order may differ."""
    return want.schema.equals(got.schema, check_metadata=True) and want.num_rows == got.num_rows and all(
        a.to_pylist() == b.to_pylist() if pa.types.is_dictionary(a.type) else a.equals(b) for a, b in zip(want.columns, got.columns, strict=True)
    )


def main() -> None:
    given = tables()
    with tempfile.TemporaryDirectory() as folder, Server(given) as server:
        threading.Thread(target=server.serve, daemon=True).start()
        binary = f"{folder}/relay"
        subprocess.run([os.environ.get("GO", "go"), "build", "-o", binary, "./interop/flight"], cwd=ROOT, check=True)
        relay = subprocess.Popen([binary, f"127.0.0.1:{server.port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            check(relay.stdout.readline().strip(), given)
            relay.stdin.close()
            assert relay.wait(10) == 0, "the relay failed"
        finally:
            relay.kill()
    print(f"Flight: {len(given)} tables from pyarrow and back to it: all equal")


if __name__ == "__main__":
    main()
