"""Writes golden.json: numbers and their encodings by numcodecs.pcodec (pcodec 1.1.0)."""

import base64
import json
from pathlib import Path

import numpy as np
from numcodecs.pcodec import PCodec

rng = np.random.default_rng(5)
cases = []
for dtype in ("uint16", "uint32", "uint64", "int16", "int32", "int64", "float16", "float32", "float64"):
    for kind, values in {
        "counting": np.arange(400),
        "random": rng.integers(0, 60000, 100),
        "decimals": rng.integers(0, 300, 120) * 0.25,
        "constant": np.full(90, 7),
        "one": np.array([3]),
    }.items():
        values = values.astype(dtype)
        for options in ({}, {"level": 1, "mode_spec": "classic", "delta_spec": "no_op"}, {"delta_spec": "try_consecutive", "delta_encoding_order": 2}, {"delta_spec": "try_lookback", "level": 4, "equal_pages_up_to": 60}):
            codec = PCodec(**options)
            config = codec.get_config()
            del config["id"]
            encode = lambda b: base64.b64encode(b).decode()
            cases.append({"Name": f"{dtype}, {kind}, {options}", "DType": dtype, "Config": config, "Values": encode(values.tobytes()), "Encoded": encode(codec.encode(values))})
Path(__file__).with_name("golden.json").write_text("\n".join(["[", ",\n".join(json.dumps(c) for c in cases), "]\n"]))
