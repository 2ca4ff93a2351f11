"""Writes half.json: checksums of conversions of float16 and bfloat16 by NumPy and
ml_dtypes. cast_test.go defines the same inputs.

    python ndview/testdata/golden/half.py     (packages: requirements.txt)

All NaNs count as one value, since NumPy keeps other bits of them than processors do.
ml_dtypes rounds float64 twice when converting to bfloat16, so that conversion has no line
here.
"""

import json
import pathlib
import zlib

import ml_dtypes
import numpy as np

np.seterr(all="ignore")
ALL = np.arange(1 << 16, dtype=np.uint16)


def checksum(values, bits):
    out = values.view(bits).copy()
    out[np.isnan(values)] = 1
    return zlib.crc32(out.astype(out.dtype.newbyteorder("<")).tobytes())


def between(half):
    """Returns each positive finite value, the middle to the next, and their neighbours."""
    below = ALL[: int(np.array(np.inf, half).view(np.uint16))]
    low, high = (x.view(half).astype(np.float64) for x in (below, below + np.uint16(1)))
    high[-1] = 2 * low[-1] - low[-2]  # where the next value would be
    middle = (low + high) / 2
    gap = high - low
    cases = np.concatenate([low, middle, middle - gap * 2**-10, middle + gap * 2**-10])
    return np.concatenate([cases, -cases])


SCATTERED = (np.arange(1 << 20, dtype=np.uint64) * 2654435761).astype(np.uint32).view(np.float32)

golden = {}
for name, half in {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}.items():
    golden[f"{name} to float32"] = checksum(ALL.view(half).astype(np.float32), np.uint32)
    golden[f"float32 to {name}, between"] = checksum(between(half).astype(np.float32).astype(half), np.uint16)
    golden[f"float32 to {name}, scattered"] = checksum(SCATTERED.astype(half), np.uint16)
exact = between(np.float16)
golden["float64 to float16, between"] = checksum((exact * (1 + 2.0**-40)).astype(np.float16), np.uint16)

path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(golden, indent=1) + "\n")
