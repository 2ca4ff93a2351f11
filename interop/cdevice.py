"""Checks arrowbuf/cdevice against other libraries in CPU memory.

pyarrow passes arrays of every type, slices, batches and streams through Quiver by the
Arrow C Device Data Interface, and batches and streams also by the C Data Interface. They
must return equal. nanoarrow reads what Quiver exports, and the reverse. Finally, all
memory of pyarrow must be free, which shows that each release was called.

Usage: cdevice.py [--library libcdevice.so]. Without a library it builds one, which needs
Go and gcc.
"""

import argparse
import ctypes
import gc
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import cstructs
import nanoarrow
import nanoarrow.device
import pyarrow as pa
from cstructs import Struct, arrays, same

ROOT = Path(__file__).resolve().parent.parent
CPU = 1


class Exported:
    """Structs as an object of Python's protocol, which nanoarrow imports."""

    def __init__(self, array: Struct, schema: Struct):
        self.array, self.schema = array, schema

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return capsule(self.schema), capsule(self.array)


NAMES = {kind: kind.encode() for kind in Struct.SIZE}  # kept alive: capsules do not copy names


def capsule(struct: Struct):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(struct.address, NAMES[struct.kind], None)


def address(of, kind: str) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(of, NAMES[kind])


class Quiver(cstructs.Quiver):
    def echo(self, name: str, of) -> Exported:
        """Exports an object of pyarrow, and returns what Quiver imports and exports again."""
        array, schema = Struct("arrow_device_array"), Struct("arrow_schema")
        of._export_to_c_device(array.address, schema.address)
        return self.forward(name, array.address, schema.address)

    def forward(self, name: str, array: int, schema: int) -> Exported:
        out = Exported(Struct("arrow_device_array"), Struct("arrow_schema"))
        self.call(name, array, schema, out.array.address, out.schema.address)
        return out


def imported(of: Exported, cls=pa.Array):
    made = cls._import_from_c_device(of.array.address, of.schema.address)
    if len(made):  # pyarrow drops the data buffers of empty view arrays, also of its own, and then fails to validate
        made.validate(full=True)
    return made


def check_arrays(quiver: Quiver) -> int:
    count = 0
    for whole in arrays():
        for arr in (whole, whole[3:8], whole[9:], whole[:0], whole[4:4]):
            got = imported(quiver.echo("echo_array", arr))
            assert same(arr, got), f"{arr.type}: want {arr}, got {got}"
            count += 1
    return count


def check_batches(quiver: Quiver) -> pa.RecordBatch:
    all_arrays = [a for a in arrays() if len(a) == 10]
    schema = pa.schema([pa.field(f"c{i}", a.type, metadata={"i": str(i)}) for i, a in enumerate(all_arrays)], metadata={"made": "by hand"})
    batch = pa.record_batch(all_arrays, schema=schema)
    for part in (batch, batch[2:7], batch[:0]):
        got = imported(quiver.echo("echo_batch", part), pa.RecordBatch)
        assert same(part, got), got
    return batch


def check_nanoarrow(quiver: Quiver) -> int:
    """Checks exports to and imports from nanoarrow."""
    count = 0
    for arr in arrays():
        source = quiver.echo("echo_array", arr[1:9])  # nanoarrow reads the structs in place
        there = nanoarrow.device.c_device_array(source)
        assert there.device_type_id == CPU and there.array.length == 8, there
        # nanoarrow 0.9 corrupts memory when it exports views, pyarrow's too.
        if not pa.types.is_string_view(arr.type) and not pa.types.is_binary_view(arr.type):
            schema, array = there.__arrow_c_device_array__()
            again = quiver.forward("echo_array", address(array, "arrow_device_array"), address(schema, "arrow_schema"))
            assert same(arr[1:9], imported(again)), arr.type
            count += 1
        source.array.release()
        source.schema.release()
    return count


class Stream:
    """An ArrowDeviceArrayStream of batches, implemented in Python."""

    GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    TEXT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    END = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    class Fields(ctypes.Structure):
        _fields_ = [("device_type", ctypes.c_int32), *((n, ctypes.c_void_p) for n in ("schema", "next", "error", "release", "private"))]

    def __init__(self, batches: list[pa.RecordBatch], error: bytes | None = None):
        self.rest, self.schema, self.error, self.released = list(batches), batches[0].schema, error, 0
        self.functions = self.GET(self.get_schema), self.GET(self.get_next), self.TEXT(self.last_error), self.END(self.release)
        self.text = ctypes.create_string_buffer(error or b"")
        self.fields = self.Fields(CPU, *(ctypes.cast(f, ctypes.c_void_p).value for f in self.functions), None)
        self.address = ctypes.addressof(self.fields)

    def get_schema(self, this, out):
        self.schema._export_to_c(out)
        return 0

    def get_next(self, this, out):
        if self.rest:
            self.rest.pop(0)._export_to_c_device(out)
            return 0
        ctypes.memset(out, 0, Struct.SIZE["arrow_device_array"])
        return 5 if self.error else 0

    def last_error(self, this):
        return ctypes.addressof(self.text)

    def release(self, this):
        self.released += 1
        self.Fields.from_address(this).release = None


def read(out: Struct) -> list[pa.RecordBatch]:
    """Reads a stream through its C functions and releases it."""
    fields = Stream.Fields.from_buffer(out.memory)
    assert fields.device_type == CPU
    c_schema, c_array = Struct("arrow_schema"), Struct("arrow_device_array")
    batches = []
    try:
        assert Stream.GET(fields.schema)(out.address, c_schema.address) == 0
        schema = pa.Schema._import_from_c(c_schema.address)
        while True:
            if (errno := Stream.GET(fields.next)(out.address, c_array.address)) != 0:
                raise OSError(errno, ctypes.string_at(Stream.TEXT(fields.error)(out.address)).decode())
            if not any(c_array.memory):
                return batches
            batches.append(pa.RecordBatch._import_from_c_device(c_array.address, schema))
    finally:
        Stream.END(fields.release)(out.address)
        assert fields.release is None


def check_streams(quiver: Quiver, batch: pa.RecordBatch) -> None:
    given = [batch, batch[:0], batch[3:8]]
    stream, out = Stream(given), Struct("arrow_device_array_stream")
    quiver.call("echo_stream", stream.address, out.address)
    for want, got in zip(given, read(out), strict=True):
        assert same(want, got)
    assert stream.released == 1

    stream, out = Stream(given, b"the disk is full"), Struct("arrow_device_array_stream")
    quiver.call("echo_stream", stream.address, out.address)
    try:
        read(out)
    except OSError as error:
        assert "the disk is full" in str(error), error
    else:
        raise AssertionError("the stream's error was not reported")
    assert stream.released == 1


class Capsule:
    """A stream of Quiver as an object of Python's protocol."""

    def __init__(self, stream: Struct):
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.stream)


def check_cpu(quiver: Quiver, batch: pa.RecordBatch) -> None:
    """Checks the C Data Interface without devices."""
    for part in (batch, batch[2:7]):
        array, schema = Struct("arrow_array"), Struct("arrow_schema")
        part._export_to_c(array.address, schema.address)
        array_out, schema_out = Struct("arrow_array"), Struct("arrow_schema")
        quiver.call("echo_cpu_batch", array.address, schema.address, array_out.address, schema_out.address)
        assert same(part, pa.RecordBatch._import_from_c(array_out.address, schema_out.address))

    def echo() -> Struct:
        stream, out = Struct("arrow_array_stream"), Struct("arrow_array_stream")
        pa.RecordBatchReader.from_batches(batch.schema, given)._export_to_c(stream.address)
        quiver.call("echo_cpu_stream", stream.address, out.address)
        return out

    given = [batch, batch[:0], batch[3:8]]
    stream = echo()
    got = list(pa.RecordBatchReader._import_from_c(stream.address))
    assert all(same(a, b) for a, b in zip(given, got, strict=True))
    stream = echo()  # nanoarrow reads the struct in place
    lengths = [array.length for array in nanoarrow.c_array_stream(Capsule(stream))]
    stream.release()
    assert lengths == [b.num_rows for b in given], lengths


def check_threads(quiver: Quiver) -> None:
    """Releases Quiver's structs on threads that Go did not create."""
    arr = pa.array(["a text that is not short"] * 1000)
    held = [imported(quiver.echo("echo_array", arr)) for _ in range(64)]
    threads = [threading.Thread(target=held.pop) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(library: str) -> None:
    quiver = Quiver(library)
    before = pa.total_allocated_bytes()
    counts = [check_arrays(quiver), check_nanoarrow(quiver)]
    batch = check_batches(quiver)
    check_streams(quiver, batch)
    check_cpu(quiver, batch)
    del batch
    check_threads(quiver)
    gc.collect()
    left = pa.total_allocated_bytes() - before
    assert left == 0, f"pyarrow has {left} bytes allocated: something was not released"
    print(f"C device interface: {counts[0]} arrays through pyarrow, {counts[1]} through nanoarrow, batches and streams: all equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="an existing library, see interop/cdevice/main.go")
    arguments = parser.parse_args()
    if arguments.library:
        return check(arguments.library)
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/libcdevice.so"
        command = [os.environ.get("GO", "go"), "build", "-buildmode=c-shared", "-o", library, "./interop/cdevice"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
        check(library)


if __name__ == "__main__":
    main()
