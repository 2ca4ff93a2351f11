"""Arrow columns that another process of this machine holds, read in place.

    with quiver_share.Client("/run/columns.sock") as client:
        flights = client.table("flights")
        batch = flights.batches[0]
        cupy.asarray(batch["distance"])     # memory of the server, on its GPU
        flights.to_pyarrow()                # in place on the host, copied from a GPU

Whatever was made of a batch in place keeps it alive at the server; when the last
of it is gone the server may use the memory again.
"""

from .batch import Batch, Buffer, Column
from .client import Client, Table
from .errors import CudaError, NoMechanism, NotFound, ProtocolError, Refused, ServerGone, ShareError
from .messages import Entry, Stats
from .server import Server

__all__ = [
    "Batch",
    "Buffer",
    "Client",
    "Column",
    "CudaError",
    "Entry",
    "NoMechanism",
    "NotFound",
    "ProtocolError",
    "Refused",
    "Server",
    "ServerGone",
    "ShareError",
    "Stats",
    "Table",
]
