"""Writes golden.json: arrays and their encodings by numcodecs.zfpy (zfpy 1.0.1), with
what zfp decodes."""

import base64
import json
from pathlib import Path

import numpy as np
import zfpy
from numcodecs.zfpy import ZFPY

rng = np.random.default_rng(5)
cases = []
for dtype in ("int32", "int64", "float32", "float64"):
    for shape in ((50,), (9, 7), (5, 3, 6), (2, 3, 4, 5), (1, 1)):
        values = (np.cumsum(rng.normal(size=shape), axis=-1) * 1000).astype(dtype)
        options = [{}, {"mode": zfpy.mode_fixed_rate, "rate": 12.5}]
        if dtype[0] == "f":
            options += [{"mode": zfpy.mode_fixed_accuracy, "tolerance": 0.5}, {"mode": zfpy.mode_fixed_precision, "precision": 20}]
        for o in options:
            codec = ZFPY(**o)
            config = codec.get_config()
            del config["id"]
            encoded = codec.encode(values)
            decoded = codec.decode(encoded)
            encode = lambda b: base64.b64encode(b).decode()
            case = {"Name": f"{dtype} {shape} {o}", "DType": dtype, "Shape": shape, "Config": config}
            cases.append(case | {"Values": encode(values.tobytes()), "Encoded": encode(encoded), "Decoded": encode(decoded.tobytes())})
Path(__file__).with_name("golden.json").write_text("\n".join(["[", ",\n".join(json.dumps(c) for c in cases), "]\n"]))
