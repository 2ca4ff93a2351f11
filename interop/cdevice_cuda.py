"""Checks arrowbuf/cdevice against nanoarrow's device library in GPU memory.

Quiver copies arrays of pyarrow, of every type that nanoarrow supports, to the GPU, and
nanoarrow copies them back, and the reverse. Each waits for the other's sync_event. The
arrays must return equal, and finally neither may hold GPU memory.

Usage: cdevice_cuda.py --build FOLDER on a machine with Go, gcc and a package index, then
cdevice_cuda.py --libraries FOLDER on a machine with a GPU and pyarrow. --device cpu
checks only nanoarrow's copies, without a GPU.
"""

import argparse
import ctypes
import gc
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU, CUDA = 1, 2
CUDA_HEADERS = ROOT / ".tools/cuda13/.installed"  # holds the folder of cuda.h
COPIED = ("common/array.c", "common/array_stream.c", "common/schema.c", "common/utils.c", "device/device.c", "device/cuda.c")


def build(folder: Path) -> None:
    """Compiles Quiver's library, and nanoarrow from the sources of its package."""
    folder.mkdir(parents=True, exist_ok=True)
    go = [os.environ.get("GO", "go"), "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", str(folder / "libcdevice.so"), "./interop/cdevice"]
    subprocess.run(go, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
    (folder / "libcdevice.h").unlink()
    version = re.search(r"^nanoarrow==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
    kept = ROOT / f".tools/nanoarrow-{version}"
    if not kept.exists():
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "nanoarrow", "--dest", str(kept), f"nanoarrow=={version}"]
        subprocess.run(fetch, check=True)
        with tarfile.open(kept / f"nanoarrow-{version}.tar.gz") as package:
            package.extractall(kept, filter="data")
    source = kept / f"nanoarrow-{version}/subprojects/arrow-nanoarrow/src"
    config = (source / "nanoarrow/nanoarrow_config.h.in").read_text().replace("@NANOARROW_NAMESPACE_DEFINE@", "").replace("@NANOARROW_VERSION@", version)
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split(".")):
        config = config.replace(f"@NANOARROW_VERSION_{part}@", number)
    (source / "nanoarrow/nanoarrow_config.h").write_text(config)
    # Functions of the driver are resolved when the library is loaded after libcuda.
    gcc = ["gcc", "-O1", "-shared", "-fPIC", "-std=gnu11", "-DNANOARROW_DEVICE_WITH_CUDA", f"-I{source}", f"-I{CUDA_HEADERS.read_text().strip()}"]
    gcc += ["-o", str(folder / "libnanoarrow.so"), str(ROOT / "interop/nanoarrow_cuda.c"), *(str(source / "nanoarrow" / c) for c in COPIED)]
    subprocess.run(gcc, check=True)


def check(folder: Path, device: int) -> None:
    import pyarrow as pa

    from cstructs import Quiver, Struct, arrays, same

    # Lazy binding: functions of the driver are called only with a GPU.
    flags = os.RTLD_LAZY
    if device == CUDA:
        ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    nanoarrow = ctypes.CDLL(str(folder / "libnanoarrow.so"), flags)
    nanoarrow.copy_array.restype = ctypes.c_char_p
    nanoarrow.copy_array.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p]
    quiver = Quiver(str(folder / "libcdevice.so"))

    def exported(arr) -> tuple[Struct, Struct]:
        array, schema = Struct("arrow_device_array"), Struct("arrow_schema")
        arr._export_to_c_device(array.address, schema.address)
        return array, schema

    def by_nanoarrow(array: Struct, schema: Struct, to: int) -> Struct:
        out = Struct("arrow_device_array")
        if (error := nanoarrow.copy_array(array.address, schema.address, to, -1 if to == CPU else 0, out.address)) is not None:
            raise ValueError(error.decode())
        array.release()
        return out

    def by_quiver(name: str, array: Struct, schema: Struct) -> tuple[Struct, Struct]:
        out = Struct("arrow_device_array"), Struct("arrow_schema")
        quiver.call(name, array.address, schema.address, out[0].address, out[1].address)
        return out

    def back(array: Struct, schema: Struct):
        got = pa.Array._import_from_c_device(array.address, schema.address)
        got.validate(full=True)
        return got

    count, before = 0, pa.total_allocated_bytes()
    if device == CUDA:
        quiver.call("open_gpu")
    for whole in arrays():
        if re.match(r"(string|binary|list|large_list)_view", str(whole.type)):
            continue  # nanoarrow 0.9 does not copy their buffers, not even on the CPU
        for arr in (whole, whole[3:8], whole[9:]):
            array, schema = exported(arr)
            if device == CPU:
                ways = [(by_nanoarrow(array, schema, CPU), schema)]
            else:
                # To the GPU by Quiver and back by nanoarrow; to the GPU by nanoarrow
                # and back by Quiver; and through Quiver on the GPU between
                # nanoarrow's copies.
                there, schema = by_quiver("to_gpu", array, schema)
                assert there.memory[11] & 0xFFFFFFFF == CUDA, "Quiver's array is not on the GPU"
                ways = [(by_nanoarrow(there, schema, CPU), schema)]
                array, schema = exported(arr)
                ways.append(by_quiver("from_gpu", by_nanoarrow(array, schema, CUDA), schema))
                array, schema = exported(arr)
                there, schema = by_quiver("echo_gpu", by_nanoarrow(array, schema, CUDA), schema)
                ways.append((by_nanoarrow(there, schema, CPU), schema))
            while ways:
                got = back(*ways.pop())
                assert same(arr, got), f"{arr.type}: want {arr}, got {got}"
                count += 1
                del got
    gc.collect()
    if device == CUDA:
        quiver.call("close_gpu")  # fails if GPU memory is still allocated
    left = pa.total_allocated_bytes() - before
    assert count > 100 and left < 1 << 20, (count, left)
    print(f"ok   nanoarrow and cdevice on {'a GPU' if device == CUDA else 'the CPU'}: {count} arrays, all equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path)
    parser.add_argument("--libraries", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.build:
        build(options.build)
    if options.libraries:
        check(options.libraries, CUDA if options.device == "cuda" else CPU)


if __name__ == "__main__":
    main()
