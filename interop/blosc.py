"""Lets numcodecs read the Blosc chunks that batches of compress/blosc write, on the CPU
and on the simulated device, with every compressor that it has, shuffle and element size."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numcodecs import blosc

ROOT = Path(__file__).resolve().parent.parent


def inputs() -> dict[str, bytes]:
    r = np.random.default_rng(1)
    return {
        "numbers": (np.arange(100_003) // 9 + r.integers(0, 3, 100_003)).astype("<u4").tobytes(),
        "random": r.bytes(20_001),
        "zeros": bytes(70_000),
        "short": b"less than a block can compress",
    }


def main() -> None:
    checked = 0
    for name, data in inputs().items():
        with tempfile.TemporaryDirectory() as folder:
            source, chunks = Path(folder) / "input", Path(folder) / "chunks"
            source.write_bytes(data)
            chunks.mkdir()
            subprocess.run([os.environ.get("GO", "go"), "run", "./interop/blosc", source, chunks], cwd=ROOT, check=True)
            for chunk in sorted(chunks.iterdir()):
                if chunk.name.split("-")[0] not in blosc.list_compressors():
                    continue  # numcodecs is built without Snappy
                if blosc.decompress(chunk.read_bytes()) != data:
                    sys.exit(f"{name}, {chunk.name}: numcodecs reads other bytes")
                checked += 1
    print(f"numcodecs reads {checked} chunks")


if __name__ == "__main__":
    main()
