"""Checks that other decoders read what the GPU's encoders write.

The host implementations of the kernels encode many inputs on the simulated device; the
kernels write the same bytes, as tests compare. Here libzstd and liblz4 of pyarrow, numcodecs and
zarr-python decode them.

Usage: compression.py. It needs Go.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numcodecs
import pyarrow as pa
import zarr
from zarr.storage import MemoryStore

ROOT = Path(__file__).resolve().parent.parent


def decode_zarr(frame: bytes, size: int) -> bytes:
    """Lets zarr-python read an array of one chunk, which is the frame."""
    store = MemoryStore()
    array = zarr.create_array(store, shape=(size,), chunks=(size,), dtype="u1", compressors=[zarr.codecs.ZstdCodec()])
    array[:] = 1
    key = next(k for k in store._store_dict if k.endswith("c/0"))
    store._store_dict[key] = zarr.core.buffer.cpu.Buffer.from_bytes(frame)
    return zarr.open_array(store, mode="r")[:].tobytes()


def check(path: Path) -> int:
    """Decodes an encoded file in every way and returns their number."""
    encoded, raw = path.read_bytes(), path.with_name(path.name.split(".")[0] + ".raw").read_bytes()
    size = len(raw)
    if path.suffix == ".lz4":
        ways = {
            "liblz4 of pyarrow": lambda: pa.Codec("lz4_raw").decompress(encoded, size, asbytes=True),
            "numcodecs": lambda: bytes(numcodecs.LZ4().decode(size.to_bytes(4, "little") + encoded)),
        } if size else {}  # neither takes a size of 0
    else:
        ways = {
            "a stream of pyarrow": lambda: pa.CompressedInputStream(pa.py_buffer(encoded), "zstd").read(),
        }
        if size:  # numcodecs refuses also its own frame of nothing
            ways["numcodecs"] = lambda: bytes(numcodecs.Zstd().decode(encoded))
            ways["libzstd of pyarrow"] = lambda: pa.Codec("zstd").decompress(encoded, size, asbytes=True)
            ways["zarr-python"] = lambda: decode_zarr(encoded, size)
    for name, decode in ways.items():
        if decode() != raw:
            sys.exit(f"compression.py: {path.name} of {size} bytes: {name} reads other bytes")
    return len(ways)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [os.environ.get("GO", "go"), "test", "-count", "1", "-run", "TestEncodedFilesAreWritten", "./compress"]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"QUIVER_INTEROP_FOLDER": folder}, check=True, stdout=subprocess.DEVNULL)
        encoded = sorted(p for p in Path(folder).iterdir() if p.suffix != ".raw")
        if not encoded:
            sys.exit("compression.py: no files were encoded")
        checks = sum(map(check, encoded))
    print(f"compression: {checks} checks of {len(encoded)} files")


if __name__ == "__main__":
    main()
