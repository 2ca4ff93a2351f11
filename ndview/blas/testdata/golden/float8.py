"""Writes float8.json: the float32 bits of the 256 values of each 8-bit format, by ml_dtypes.

Run from the root of the repository:
    .venv/bin/python ndview/blas/testdata/golden/float8.py > ndview/blas/testdata/golden/float8.json
"""

import json

import ml_dtypes
import numpy as np

bits = np.arange(256, dtype="uint8")
formats = {"E4M3": ml_dtypes.float8_e4m3fn, "E5M2": ml_dtypes.float8_e5m2}
print(json.dumps({name: bits.view(t).astype("float32").tobytes().hex() for name, t in formats.items()}))
