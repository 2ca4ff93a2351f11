"""Arrow columns of another process on this machine, read in place.

    with quiver_share.Client("/run/columns.sock") as client:
        flights = client.table("flights")
        batch = flights.batches[0]
        cupy.asarray(batch["distance"])     # the server's memory on the GPU
        flights.to_pyarrow()                # in place on the host, copied from a GPU
    client.array("image").to_numpy()    # an N-dimensional array, with its strides

Objects that show a batch's memory keep the batch's lease. When the last of them is
gone, the server may reuse the memory.
"""

from .array import Array
from .batch import Batch, Buffer, Column
from .client import Client, Table
from .errors import CudaError, NoMechanism, NotFound, ProtocolError, Refused, ServerGone, ShareError
from .messages import Entry, Stats
from .server import Server

__all__ = [
    "Array",
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
