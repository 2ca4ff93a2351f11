"""Checks that Go and Python processes share columns, in both directions.

bin/quiver-share serves tables of every Arrow type to the Python client, which
reads them in place; bin/quiver-share prints the Python server's tables. Arrays of every
NumPy type and form cross in both directions, too. Then clients and servers die, and
invalid messages are sent. With --device cuda the tables and arrays are on a GPU; if CuPy
is installed, its arrays are served, too.

Usage: share.py [--command bin/quiver-share] [--arrays PROGRAM] [--device cpu]

PROGRAM is ./interop/ndarray, built; without the flag, $GO builds it.
"""

import argparse
import base64
import contextlib
import dataclasses
import datetime
import decimal
import gc
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "clients/python"))

import arrays  # noqa: E402
import numpy as np  # noqa: E402

import quiver_share  # noqa: E402
from quiver_share import frame, layout, messages, process  # noqa: E402


def every_type() -> dict[str, pa.Table]:
    """Returns tables of several batches, with nulls, slices and nesting."""
    rng = random.Random(6)
    n = 203

    def some(make):
        return [None if rng.random() < 0.2 else make() for _ in range(n)]

    def word():
        return "ü" * rng.randrange(9) + str(rng.random())[: rng.randrange(20)]

    day = datetime.date(2026, 11, 21)
    numbers = {str(t): pa.array(some(lambda: rng.randrange(100)), t) for t in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())}
    plain = numbers | {
        "null": pa.nulls(n),
        "bool": pa.array(some(lambda: rng.random() < 0.5)),
        "float16": pa.array(some(rng.random), pa.float16()),
        "decimal128": pa.array(some(lambda: decimal.Decimal(rng.randrange(10**9)) / 100), pa.decimal128(20, 2)),
        "decimal256": pa.array(some(lambda: decimal.Decimal(rng.randrange(10**9)) / 100), pa.decimal256(50, 2)),
        "date32": pa.array(some(lambda: day)),
        "time64": pa.array(some(lambda: datetime.time(1, rng.randrange(60), 3)), pa.time64("us")),
        "timestamp": pa.array(some(lambda: rng.randrange(10**15)), pa.timestamp("us", "Europe/Oslo")),
        "duration": pa.array(some(lambda: rng.randrange(10**9)), pa.duration("ms")),
        "interval": pa.array(some(lambda: pa.MonthDayNano([1, rng.randrange(30), 5])), pa.month_day_nano_interval()),
        "string": pa.array(some(word)),
        "large_string": pa.array(some(word), pa.large_string()),
        "binary": pa.array(some(lambda: word().encode()), pa.binary()),
        "fixed_size_binary": pa.array(some(lambda: rng.randbytes(7)), pa.binary(7)),
        "string_view": pa.array(some(word), pa.string_view()),
        "binary_view": pa.array(some(lambda: word().encode()), pa.binary_view()),
    }

    def short(make=lambda: rng.randrange(9)):
        return [make() for _ in range(rng.randrange(4))]

    point = pa.struct([("x", pa.int32()), ("s", pa.string())])
    nested = {
        "list": pa.array(some(short), pa.list_(pa.int32())),
        "large_list": pa.array(some(lambda: short(word)), pa.large_list(pa.string())),
        "list_view": pa.array(some(short), pa.list_view(pa.int16())),
        "large_list_view": pa.array(some(short), pa.large_list_view(pa.int16())),
        "fixed_size_list": pa.array(some(lambda: [rng.random() for _ in range(3)]), pa.list_(pa.float32(), 3)),
        "struct": pa.array(some(lambda: {"x": rng.randrange(9), "s": word()}), point),
        "map": pa.array(some(lambda: [(word(), rng.randrange(9))]), pa.map_(pa.string(), pa.int8())),
        "list of structs": pa.array(some(lambda: [{"x": 1, "s": word()}] * rng.randrange(3)), pa.list_(point)),
        "sparse union": pa.UnionArray.from_sparse(pa.array([i % 2 for i in range(n)], pa.int8()), [pa.array(range(n)), pa.array([word() for _ in range(n)])]),
        "dense union": pa.UnionArray.from_dense(pa.array([i % 2 for i in range(n)], pa.int8()), pa.array([i // 2 for i in range(n)], pa.int32()), [pa.array(range(n)), pa.array([word() for _ in range(n)])]),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays(pa.array([7, 100, n], pa.int32()), pa.array(["a", None, "c"])),
        "dictionary": pa.array(some(lambda: rng.choice(["x", "y", "zebra"]))).dictionary_encode(),
        "list of dictionary": pa.ListArray.from_arrays(pa.array([0, *range(n)], pa.int32()), pa.array(some(lambda: rng.choice("uvw"))).dictionary_encode()),
        "extension": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([rng.randbytes(16) for _ in range(n)], pa.binary(16))),
    }
    made = {}
    for name, columns in (("plain", plain), ("nested", nested)):
        table = pa.table(columns)
        made[name] = pa.concat_tables([table.slice(0, 100), table.slice(100, 1), table.slice(101)])
    made["empty"] = pa.table({"a": pa.array([], pa.int32()), "s": pa.array([], pa.string())})
    return made


def same(got: pa.Table, want: pa.Table, what: str) -> None:
    got.validate(full=True)
    if got.schema != want.schema or got.num_rows != want.num_rows:
        raise AssertionError(f"{what}: got {got.schema} with {got.num_rows} rows, want {want.schema} with {want.num_rows}")
    for name in want.column_names:
        if not got[name].combine_chunks().equals(want[name].combine_chunks()) and got[name].to_pylist() != want[name].to_pylist():
            raise AssertionError(f"{what}: column {name!r} differs")


def until(true, what: str, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class Checks:
    def __init__(self, command: str, arrays: str, device: str, folder: Path):
        self.command, self.arrays, self.device, self.folder = command, arrays, device, folder
        self.tables = every_type()

    @contextlib.contextmanager
    def serving(self, *flags: str):
        """Runs a Go server with the tables of all types."""
        files = []
        for name, table in self.tables.items():
            path = self.folder / f"{name}.arrow"
            with pa.ipc.new_file(path, table.schema) as w:
                w.write_table(table)
            files.append(path)
        path = str(self.folder / "go.sock")
        server = subprocess.Popen([self.command, "serve", *files, "--device", self.device, "--socket", path, *flags], stdout=subprocess.PIPE, text=True)
        try:
            for line in server.stdout:
                if line.startswith("serving"):
                    break
            else:
                raise AssertionError(f"the server ended with {server.wait()}")
            yield path, server
        finally:
            server.send_signal(signal.SIGTERM)
            if server.wait(20) not in (0, -signal.SIGKILL):
                raise AssertionError(f"the server ended with {server.returncode}")

    # ---- The checks: each method whose name begins with check_

    def check_python_reads_go_tables_in_place(self):
        with self.serving() as (path, _), quiver_share.Client(path) as client:
            if sorted(e.name for e in client.list()) != sorted(self.tables):
                raise AssertionError(client.list())
            for name, want in self.tables.items():
                table = client.table(name)
                same(table.to_pyarrow(), want, name)
                for batch in table.batches:
                    if not batch.device.startswith(self.device):
                        raise AssertionError(f"{name}: on {batch.device}")
                    schema, array = batch.__arrow_c_device_array__()  # dropping the capsules releases them
                    del schema, array
                self.compare_columns(table, want)
            table = batch = None
            gc.collect()
            until(lambda: not client.stat().clients[0].leases, "the leases end with the batches")

    @staticmethod
    def compare_columns(table: quiver_share.Table, want: pa.Table) -> None:
        """Compares each column of the first batch."""
        for column in table.batches[0].columns if table.batches else []:
            got, part = column.to_pyarrow(), want[column.field.name].slice(0, len(column))
            if got.to_pylist() != part.to_pylist():
                raise AssertionError(f"column {column.field.name!r} differs as an array of its own")

    def check_go_reads_python_tables(self):
        path = str(self.folder / "py.sock")
        with quiver_share.Server(path) as server:
            for name, table in self.tables.items():
                server.publish(name, table)
            for name, want in self.tables.items():
                printed = subprocess.run([self.command, "cat", name, "--format", "arrow", "--socket", path], capture_output=True, check=False)
                if printed.returncode:
                    raise AssertionError(printed.stderr.decode())
                same(pa.ipc.open_stream(printed.stdout).read_all(), want, name)
            listed = json.loads(subprocess.run([self.command, "ls", "--json", "--socket", path], capture_output=True, check=True).stdout)
            if len(listed) != len(self.tables):
                raise AssertionError(listed)
            until(lambda: not server.stat().clients, "the clients are gone")

    def check_gpu_arrays_in_both_directions(self):
        if self.device == "cpu":
            return "needs --device cuda"
        try:
            import cupy
        except ImportError:
            return "needs CuPy"
        with self.serving() as (path, _), quiver_share.Client(path) as client:
            rows = self.tables["empty"].num_rows
            for batch in client.table("nested").batches + client.table("plain").batches:
                for column in batch.columns:
                    if column.null_count == 0 and pa.types.is_integer(column.type):
                        shown = cupy.asarray(column)
                        if shown.data.ptr != column.buffers()[1][0] or shown.get().tolist() != column.to_pyarrow().to_pylist():
                            raise AssertionError(f"{column} differs in CuPy")
                        rows += len(column)
        path = str(self.folder / "cupy.sock")
        with quiver_share.Server(path) as server, quiver_share.Client(path) as client:
            x, m = cupy.arange(1000, dtype="f4"), cupy.arange(3000, dtype="i2").reshape(1000, 3)
            server.publish("arrays", {"x": x, "m": m})
            want = pa.table({"x": x.get(), "m": [list(map(int, r)) for r in m.get()]})
            printed = subprocess.run([self.command, "cat", "arrays", "--format", "arrow", "--socket", path], capture_output=True, check=False)
            if printed.returncode:
                raise AssertionError(printed.stderr.decode())
            got = pa.ipc.open_stream(printed.stdout).read_all()
            if got["x"].to_pylist() != want["x"].to_pylist() or got["m"].to_pylist() != want["m"].to_pylist():
                raise AssertionError("arrays of CuPy differ in Go")
            batch = client.table("arrays").batches[0]
            if not (cupy.asarray(batch["m"]) == m).all():
                raise AssertionError("arrays of CuPy differ in another connection")
        return None

    @contextlib.contextmanager
    def serving_arrays(self, wanted: dict[str, np.ndarray]):
        """Runs a Go server with arrays, which end with its standard input."""
        path = str(self.folder / "arrays.sock")
        server = subprocess.Popen([self.arrays, "serve", path, self.device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            print(json.dumps([arrays.described(name, a) for name, a in wanted.items()]), file=server.stdin, flush=True)
            if server.stdout.readline() != "serving\n":
                raise AssertionError(f"the server ended with {server.wait()}")
            yield path
        finally:
            server.stdin.close()
            if server.wait(20):
                raise AssertionError(f"the server ended with {server.returncode}")

    def check_python_reads_go_arrays_in_place(self):
        wanted = arrays.every_array()
        with self.serving_arrays(wanted) as path, quiver_share.Client(path) as client:
            if {e.name for e in client.list()} != set(wanted) or {e.kind for e in client.list()} != {"array"}:
                raise AssertionError(client.list())
            for name, want in wanted.items():
                shared = client.array(name)
                if want.size and not shared.device.startswith(self.device):
                    raise AssertionError(f"{name}: on {shared.device}")
                arrays.check(name, shared.to_numpy(), want)
                arrays.check(name, np.asarray(shared if shared.gpu is None else shared.to_host()), want)
                self.compare_dlpack(name, shared if shared.gpu is None else shared.to_host(), want)
            first = next(iter(wanted))
            kept = client.array(first).to_numpy()
            del shared
            gc.collect()
            held = 1 if self.device == "cpu" else 0
            until(lambda: len(client.stat().clients[0].leases) == held, "views keep the lease, and copies do not")
            arrays.check(first, kept, wanted[first])
            del kept
            gc.collect()
            until(lambda: not client.stat().clients[0].leases, "the leases end with the arrays")
            for read in (client.table, client.buffer, lambda name: next(client.stream(name))):
                try:
                    read(first)
                except quiver_share.Refused as e:
                    if e.code != 5:
                        raise
                else:
                    raise AssertionError(f"{first} is read as of another kind")
            client.list()

    @staticmethod
    def compare_dlpack(name: str, shared: quiver_share.Array, want: np.ndarray) -> None:
        plain = want.dtype.kind in "biufc" and all(s % want.itemsize == 0 for s in want.strides)
        try:
            got = np.from_dlpack(shared)
        except BufferError:
            if plain:
                raise
            return
        except RuntimeError:  # NumPy imports no bfloat16
            if want.dtype.name != "bfloat16":
                raise
            return
        if not plain:
            raise AssertionError(f"{name}: DLPack has no {want.dtype}")
        arrays.check(f"{name} by DLPack", got, want)

    def check_go_reads_python_arrays(self):
        wanted, path = arrays.every_array(), str(self.folder / "py.sock")
        with quiver_share.Server(path) as server, quiver_share.Client(path) as client:
            for name, a in wanted.items():
                server.publish(name, a)
            for bad in (np.array(["text"]), np.array([None]), np.arange(3, dtype=">i4"), np.longdouble(1), {"x": np.arange(3)}, "text", 3):
                try:
                    server.publish("bad", bad)
                except TypeError:
                    continue
                raise AssertionError(f"{bad!r} is published")
            printed = subprocess.run([self.arrays, "read", path, self.device], capture_output=True, check=False)
            if printed.returncode:
                raise AssertionError(printed.stderr.decode())
            got = {d["Name"]: d for d in json.loads(printed.stdout)}
            if set(got) != set(wanted):
                raise AssertionError(sorted(got))
            for name, want in wanted.items():
                d = got[name]
                text = d["DType"]
                kind = np.dtype(layout.for_numpy(json.loads(text) if text[0] in "[{" else text))
                if kind != want.dtype or tuple(d["Shape"] or ()) != want.shape or (want.size and tuple(d["Strides"] or ()) != want.strides):
                    raise AssertionError(f"{name}: Go has {d}, want {want.dtype} {want.shape} {want.strides}")
                if base64.b64decode(d["Bytes"] or "") != arrays.raw(want):
                    raise AssertionError(f"{name}: elements differ in Go")
                arrays.check(name, client.array(name).to_numpy(), want)

    def check_arrays_of_gpus_in_both_directions(self):
        if self.device == "cpu":
            return "needs --device cuda"
        try:
            import cupy
        except ImportError:
            return "needs CuPy"
        base = np.arange(60, dtype="f4").reshape(3, 4, 5)
        wanted = {"whole": base, "strided": base[::-1, :, ::2], "turned": base.T}
        with self.serving_arrays(wanted) as path, quiver_share.Client(path) as client:
            for name, want in wanted.items():
                shared = client.array(name)
                for got in (cupy.asarray(shared), cupy.from_dlpack(shared)):
                    if got.data.ptr != shared.address or got.strides != want.strides or not (got.get() == want).all():
                        raise AssertionError(f"{name} differs in CuPy")
        path = str(self.folder / "cupy.sock")
        with quiver_share.Server(path) as server:
            a = cupy.asarray(base)
            for name, view in {"whole": a, "strided": a[::-1, :, ::2], "turned": a.T}.items():
                server.publish(name, view)
            printed = subprocess.run([self.arrays, "read", path, self.device], capture_output=True, check=True)
            for d in json.loads(printed.stdout):
                want = wanted[d["Name"]]
                if tuple(d["Strides"]) != want.strides or base64.b64decode(d["Bytes"]) != arrays.raw(want):
                    raise AssertionError(f"{d['Name']} of CuPy differs in Go")
        return None

    def check_invalid_layouts_of_arrays_are_errors(self):
        """Decodes layouts that are no layouts, or that exceed 64 bytes of memory."""
        valid = layout.Layout("<f8", 8, (2, 2), (16, 8)).encode()
        layout.Layout.decode(valid).check(64)
        rng = random.Random(8)
        bad = [valid[:n] for n in range(len(valid))] + [valid + b"x", b"\2" + valid[1:], valid.replace(b"<f8", b"<f7"), valid.replace(b"<f8", b">f8"), valid.replace(b"<f8", b"|O8")]
        for kind in (["x"], [["x"]], [["x", "<f4", [-1]]], [["x", "<f4", [1 << 70]]], {"names": []}, {"names": ["a"], "formats": ["<f8"], "offsets": [1], "itemsize": 8}):
            bad.append(layout.Layout.encode(layout.Layout(kind, 0, (), ())))
        for at, value in ((8, 40), (16, 5), (16, (1 << 63) // 4), (32, 48), (32, -16 & (1 << 64) - 1), (40, 1 << 63)):
            bad.append(valid[:at] + struct.pack("<Q", value) + valid[at + 8 :])
        for data in bad:
            try:
                layout.Layout.decode(data).check(64)
            except quiver_share.ProtocolError:
                continue
            raise AssertionError(f"{data} is accepted")
        memory = np.zeros(64, "u1")
        for _ in range(20000):
            data = bytearray(valid)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 8, 64, 127, 128, 255, rng.randrange(256)))
            try:
                made = layout.Layout.decode(bytes(data))
                made.check(64)
            except quiver_share.ProtocolError:
                continue
            if made.size:  # NumPy checks the bounds again
                np.ndarray(made.shape, f"V{made.item_size}", memory, made.offset, made.strides)

    def check_example_consumer_prints_what_pyarrow_computes(self):
        source = ROOT / "testdata/flights.arrow"
        path = str(self.folder / "example.sock")
        server = subprocess.Popen([self.command, "serve", source, "--device", self.device, "--socket", path], stdout=subprocess.PIPE, text=True)
        try:
            until(lambda: server.stdout.readline().startswith("serving"), "the server starts", 30)
            env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "clients/python"), os.environ.get("PYTHONPATH", "")])}
            printed = subprocess.run([sys.executable, ROOT / "examples/consumer/consumer.py", path], env=env, capture_output=True, text=True, check=False)
        finally:
            server.terminate()
            server.wait(20)
        if printed.returncode:
            raise AssertionError(printed.stderr)
        with pa.memory_map(str(source)) as file:
            flights = pa.ipc.open_file(file).read_all()
        first, *lines = printed.stdout.splitlines()
        want = f"{flights.num_rows} flights of {pa.compute.mean(flights['distance']).as_py():.3f} miles"
        if first != want:
            raise AssertionError(f"got {first!r}, want {want!r}")
        means = flights.select(["carrier", "dep_delay"]).unify_dictionaries().to_pandas().groupby("carrier", observed=True)["dep_delay"].mean()
        got = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
        if got != {carrier: round(mean, 3) for carrier, mean in means.items()}:
            raise AssertionError(f"got {got}")

    def check_dead_clients_lose_their_leases(self):
        with self.serving() as (path, _), quiver_share.Client(path) as client:
            script = f"import sys; sys.path.insert(0, {str(ROOT / 'clients/python')!r})\nimport quiver_share, time\nc = quiver_share.Client({path!r})\nt = c.table('plain')\nprint('held', flush=True)\ntime.sleep(60)"
            other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
            if other.stdout.readline() != "held\n":
                raise AssertionError(f"the client ended with {other.wait()}")
            if sum(len(c.leases) for c in client.stat().clients) != 3:
                raise AssertionError(client.stat())
            other.kill()
            other.wait()
            until(lambda: len(client.stat().clients) == 1, "the dead client is noticed")

    def check_clients_send_keep_alives(self):
        with self.serving("--silence", "400ms") as (path, _), quiver_share.Client(path) as client:
            held = client.table("plain")
            time.sleep(1.5)
            same(held.to_pyarrow(), self.tables["plain"], "after a silence")

    def check_expired_leases_end_the_connection(self):
        with self.serving("--lease-limit", "400ms") as (path, _), quiver_share.Client(path) as client:
            held = client.table("plain")
            time.sleep(1)
            try:
                client.list()
            except quiver_share.ServerGone as e:
                if "a lease expired" not in str(e):
                    raise
            else:
                raise AssertionError("the connection was not closed")
            del held

    def check_sockets_of_dead_servers_are_replaced(self):
        path = str(self.folder / "py.sock")
        with quiver_share.Server(path):
            try:
                quiver_share.Server(path)
            except OSError:
                pass
            else:
                raise AssertionError("two servers share a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(path)
        with quiver_share.Server(path), quiver_share.Client(path) as client:
            if client.list():
                raise AssertionError(client.list())

    def check_dead_servers_are_errors(self):
        with self.serving() as (path, server), quiver_share.Client(path) as client:
            batch = client.table("plain").batches[0]
            server.kill()
            server.wait()
            until(lambda: client._connection.failure is not None, "the dead server is noticed")
            for use in (client.list, batch.to_pyarrow, batch.__arrow_c_device_array__, lambda: client.table("plain")):
                try:
                    use()
                except quiver_share.ServerGone:
                    continue
                raise AssertionError(f"{use} works without a server")

    def check_withdrawn_tables_stay_with_their_readers(self):
        path = str(self.folder / "py.sock")
        table = self.tables["plain"]
        with quiver_share.Server(path) as server, quiver_share.Client(path) as client:
            server.publish("t", table)
            held = client.table("t")
            server.withdraw("t")
            same(held.to_pyarrow(), table, "withdrawn")
            try:
                client.table("t")
            except quiver_share.NotFound:
                pass
            else:
                raise AssertionError("a withdrawn table is still published")
            del held
            gc.collect()
            until(lambda: not server.stat().blocks, "the memory of a withdrawn table is freed")
            until(lambda: "memfd:quiver-share" not in Path("/proc/self/maps").read_text(), "and unmapped here")

    def check_invalid_messages_end_only_their_connection(self):
        """Checks both servers, Go's and Python's."""
        good = messages.Hello(process.current_process(), (messages.MEMORY,), ()).encode()

        def framed(kind, payload=b"", request=0, fds=0, length=None):
            return frame.HEADER.pack(len(payload) if length is None else length, kind, fds, 0, request) + payload

        hello = framed(frame.HELLO, good)
        broken = {
            "noise": random.Random(1).randbytes(200),
            "a frame larger than any": framed(frame.HELLO, length=1 << 31),
            "another protocol": framed(frame.HELLO, b"X" * 8 + good[8:]),
            "HELLO cut short": framed(frame.HELLO, good[:-1]),
            "HELLO with more": framed(frame.HELLO, good + b"\0"),
            "no HELLO": framed(frame.LIST, request=1),
            "another version": framed(frame.HELLO, good[:8] + struct.pack("<HH", 7, 9) + good[12:]),
            "an unknown type": hello + framed(77),
            "a missing descriptor": hello + framed(frame.LIST, request=1, fds=1),
            "a lease that is not held": hello + framed(frame.RELEASE, messages.encode_numbers([5])),
            "a count beyond the end": hello + framed(frame.RELEASE, struct.pack("<I", 1 << 30)),
            "an acknowledgement of nothing": hello + framed(frame.FORGOTTEN, messages.encode_numbers([3])),
            "a request without a number": hello + framed(frame.LIST),
            "a release with a number": hello + framed(frame.RELEASE, messages.encode_numbers([]), request=1),
            "a PING with a payload": hello + framed(frame.PING, b"?", request=1),
            "another's process number": framed(frame.HELLO, messages.Hello(dataclasses.replace(process.current_process(), pid=1), (messages.MEMORY,), ()).encode()),
            "a name that is not UTF-8": hello + framed(frame.GET, b"\x02\x00\xff\xfe", request=1),
        }
        python = str(self.folder / "py.sock")
        with self.serving() as (go, _), quiver_share.Server(python) as server:
            server.publish("plain", self.tables["plain"])
            for path in (go, python):
                for what, raw in broken.items():
                    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                        s.settimeout(10)
                        s.connect(path)
                        with contextlib.suppress(ConnectionError):
                            s.sendall(raw)
                            if what in ("noise", "HELLO cut short"):  # the server may wait for the rest
                                s.shutdown(socket.SHUT_WR)
                        try:
                            while s.recv(65536):
                                pass
                        except ConnectionError:
                            pass
                        except TimeoutError:
                            raise AssertionError(f"{path}: {what}: the server did not close the connection") from None
                with quiver_share.Client(path) as client:
                    same(client.table("plain").to_pyarrow(), self.tables["plain"], "after broken messages")


    def check_excess_requests_wait(self):
        path = str(self.folder / "slow.sock")
        most = 0

        def serve(listening: socket.socket) -> None:
            nonlocal most
            connected, _ = listening.accept()
            with connected:
                framed = frame.FramedSocket(connected)
                framed.receive()
                framed.send(frame.WELCOME, 0, messages.Welcome(process.current_process(), bytes(16)).encode())
                answered = 0
                while answered < 200:
                    asked = [framed.receive()]
                    while select.select([connected], [], [], 0.2)[0]:  # further requests that do not wait for a reply
                        asked.append(framed.receive())
                    most = max(most, len(asked))
                    for one in asked:
                        framed.send(frame.PONG, one.request)
                    answered += len(asked)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(path)
            listening.listen()
            server = threading.Thread(target=serve, args=(listening,))
            server.start()
            with quiver_share.Client(path) as client:
                asking = [threading.Thread(target=client._connection.round_trip, args=(frame.PING, frame.PONG)) for _ in range(200)]
                for one in asking:
                    one.start()
                for one in asking:
                    one.join(10)
            server.join(10)
        if not 30 < most <= 64:
            raise AssertionError(f"{most} requests at a time")

    def check_unknown_mechanisms_are_skipped(self):
        """Checks both servers: a later client may list mechanisms that they do not know."""
        hello = messages.Hello(process.current_process(), (200, 5), ()).encode()
        python = str(self.folder / "py.sock")
        with self.serving() as (go, _), quiver_share.Server(python) as server:
            server.publish("plain", self.tables["plain"])
            for path in (go, python):
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                    s.settimeout(10)
                    s.connect(path)
                    framed = frame.FramedSocket(s)
                    framed.send(frame.HELLO, 0, hello)
                    name = b"plain"
                    framed.send(frame.GET, 7, struct.pack("<H", len(name)) + name)
                    while (got := framed.receive()).type in (frame.WELCOME, frame.SCHEMA):
                        pass
                    if got.type != frame.ERROR or got.request != 7 or messages.decode_error(got.payload)[0] != 6:
                        raise AssertionError(f"{path}: {got}")
        pool = messages.Descriptor(messages.CUDA_POOL, process.current_process(), 10, 0, 10, handle=bytes(64), pool=3)
        if messages.Descriptor.decode(messages.Reader(pool.encode(), "BLOCK")) != pool:
            raise AssertionError("the descriptor of a pool does not round-trip")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", default=str(ROOT / "bin/quiver-share"))
    parser.add_argument("--arrays", default="")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.arrays:
            options.arrays = str(Path(folder) / "ndarray")
            subprocess.run([os.environ.get("GO", "go"), "build", "-o", options.arrays, "./interop/ndarray"], cwd=ROOT, check=True)
        return run(options)


def run(options: argparse.Namespace) -> int:
    failed = 0
    for name in [n for n in dir(Checks) if n.startswith("check_")]:
        with tempfile.TemporaryDirectory() as folder:
            label = name.removeprefix("check_").replace("_", " ")
            try:
                skipped = getattr(Checks(options.command, options.arrays, options.device, Path(folder)), name)()
                print(f"{'skip' if skipped else 'ok'}    {label}{f': {skipped}' if skipped else ''}", flush=True)
            except Exception as e:
                failed += 1
                print(f"FAIL  {label}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
