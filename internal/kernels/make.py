"""Compiles each FOLDER/NAME.cu of this folder to images/FOLDER/NAME.zip.

Usage: make.py [FOLDER/NAME...], run by `make kernels`. With names, only those are
compiled. It needs no CUDA toolkit and no C compiler: NVRTC compiles, from the
wheels that requirements.txt pins, so the same sources give the same images
on any machine.

An archive holds machine code for each of ARCHITECTURES, sm_80.zst for instance,
which also runs on the later ones of the same major version, and compute_90.zst,
PTX that a driver compiles for GPUs newer than all of them. Each entry is a
Zstandard frame, 0.6 times the size of zip's own compression. images/SHA256SUMS
records the inputs and the images; `make kernels-check` compares them.
"""

import ctypes
import hashlib
import importlib.util
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

ARCHITECTURES = (70, 80, 90, 100, 120)
PTX = 90
LEVEL = 22
OPTIONS = ("-std=c++17", "-default-device")

# NVRTC has no C library. This is the only header of it that the kernels include.
STDINT = b"""#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long uintptr_t;
"""


def wheel(package: str) -> Path:
    """Returns the folder of one of NVIDIA's wheels, which share the package nvidia."""
    for root in importlib.util.find_spec("nvidia").submodule_search_locations:
        if (Path(root) / package).is_dir():
            return Path(root) / package
    sys.exit(f"make.py: package nvidia.{package} is missing: pip install -r requirements.txt")


class Library:
    """A C library whose functions return 0, or an error code for which it has a name."""

    def __init__(self, path: Path, error_string: str):
        self.lib = ctypes.CDLL(str(path))
        self.error_string = getattr(self.lib, error_string)
        self.error_string.restype = ctypes.c_char_p

    def __call__(self, function: str, *arguments) -> None:
        if code := getattr(self.lib, function)(*arguments):
            raise RuntimeError(f"{function}: {self.error_string(code).decode()}")


def strings(values) -> ctypes.Array:
    return (ctypes.c_char_p * len(values))(*(v.encode() for v in values))


def compile(nvrtc: Library, folder: Path, source: Path, arch: str, what: str) -> bytes:
    """Compiles for an architecture such as sm_90, to what = CUBIN or PTX. Includes are relative to folder."""
    options = [*OPTIONS, f"-arch={arch}", f"-I{wheel('cuda_runtime') / 'include'}", f"-I{folder}"]
    program = ctypes.c_void_p()
    # The image contains this name, so it must not depend on where the repository is.
    text, name = source.read_bytes(), source.name.encode()
    headers, header_names = (ctypes.c_char_p * 1)(STDINT), strings(["stdint.h"])
    nvrtc("nvrtcCreateProgram", ctypes.byref(program), text, name, 1, headers, header_names)
    try:
        nvrtc("nvrtcCompileProgram", program, len(options), strings(options))
    except RuntimeError as e:
        log = fetch(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        sys.exit(f"{source}: {arch}: {e}\n{log}")
    image = fetch(nvrtc, program, what)
    nvrtc("nvrtcDestroyProgram", ctypes.byref(program))
    return image


def fetch(nvrtc: Library, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    nvrtc(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    nvrtc(f"nvrtcGet{what}", program, data)
    return data.raw


def archive(path: Path, images: dict[str, bytes]) -> None:
    """Writes a zip file whose bytes depend only on the images."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, data in images.items():
            frame = zstandard.ZstdCompressor(level=LEVEL).compress(data)
            file.writestr(zipfile.ZipInfo(f"{name}.zst"), frame)


def main(folder: Path, names: list[str]) -> None:
    nvrtc = Library(wheel("cuda_nvrtc") / "lib/libnvrtc.so.12", "nvrtcGetErrorString")
    images = folder / "images"
    sources = sorted(folder.glob("*/*.cu"))
    name_of = {s: s.relative_to(folder).with_suffix("").as_posix() for s in sources}
    for old in set(images.glob("*/*.zip")) - {images / f"{name}.zip" for name in name_of.values()}:
        old.unlink()
    targets = {f"sm_{a}": "CUBIN" for a in ARCHITECTURES} | {f"compute_{PTX}": "PTX"}
    with ThreadPoolExecutor(2) as pool:
        for source in sources:
            if names and name_of[source] not in names:
                continue
            parts = pool.map(lambda target: compile(nvrtc, folder, source, *target), targets.items())
            path = images / f"{name_of[source]}.zip"
            path.parent.mkdir(parents=True, exist_ok=True)
            archive(path, dict(zip(targets, parts, strict=True)))
            print(f"{path.relative_to(folder)}: {path.stat().st_size:,} bytes")

    # The inputs and the images, in the format of sha256sum.
    inputs = [Path(__file__).resolve(), Path(__file__).resolve().parent / "requirements.txt"]
    inputs += sources + sorted(folder.glob("*/*.cuh")) + sorted(images.glob("*/*.zip"))
    lines = (f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder)}\n" for p in inputs)
    (images / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main(Path(__file__).resolve().parent, sys.argv[1:])
