#!/usr/bin/env python3
"""Writes chunks.json: Blosc chunks that numcodecs wrote, for TestDecodeMatchesNumcodecs.

    pip install numcodecs==0.17.1 && python make.py

A chunk of n bytes with elements of t bytes encodes the input that recipe(n, t) returns.
"""

import base64
import json
from pathlib import Path

import numpy as np
from numcodecs import blosc


def recipe(n: int, typesize: int) -> bytes:
    """Byte b of element i is byte b % 8 of i // 9 + i % 3."""
    i = np.arange(n // typesize + 1, dtype="<u8")
    words = (i // 9 + i % 3).view("u1").reshape(-1, 8)
    return words[:, np.arange(typesize) % 8].tobytes()[:n]


def main() -> None:
    chunks = []

    def add(n: int, typesize: int, cname: str, clevel: int, shuffle: int, blocksize: int = 0) -> None:
        data = np.frombuffer(recipe(n, typesize), f"V{typesize}" if n % typesize == 0 and n else "u1")
        size = data.dtype.itemsize
        raw = blosc.compress(data, cname.encode(), clevel, shuffle, blocksize, size)
        chunks.append({"size": n, "typesize": typesize, "name": f"{cname} {clevel} {shuffle} {blocksize}", "chunk": base64.b64encode(raw).decode()})

    for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
        for shuffle in [0, 1, 2]:
            for typesize in [1, 2, 3, 4, 8, 16, 17]:
                add(1000 * typesize, typesize, cname, 5, shuffle)
            add(40001, 1, cname, 9, shuffle)
            add(4096, 4, cname, 5, shuffle, 1024)
            add(4100, 4, cname, 5, shuffle, 1024)
            for n in [0, 1, 127, 128, 136]:
                add(n, 1, cname, 5, shuffle)
        add(1 << 17, 4, cname, 1, 1)
        add(1000, 4, cname, 0, 1)
    out = Path(__file__).parent / "chunks.json"
    out.write_text("[\n" + ",\n".join(json.dumps(c) for c in chunks) + "\n]\n")


main()
