"""Writes times.json: the results of NumPy's functions of datetimes and timedeltas.

Run: .venv/bin/python ndview/testdata/golden/times.py

A function of two operands gets each value of the first type with each of the second.
Values are int64s. A case without a result is an error: of NumPy, or of ndview alone if
times are combined with floats or the result is a float.
"""

import json
import warnings
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
np.seterr(all="ignore")

NAT = -(2**63)
VALUES = {"datetime64[s]": [0, 86400, -5, NAT], "datetime64[D]": [0, 3, -1, NAT], "timedelta64[s]": [0, 7, -7, NAT],
          "timedelta64[ms]": [1500, -1, 3, NAT], "int64": [0, 2, -3, 7], "int32": [1, -2, 0, 5], "float64": [1.5, -0.25, 0, 1e300], "bool": [0, 1, 1, 0],
          "uint64": [0, 2, 3, 7]}
UNARY = "negative absolute positive isnan isinf isfinite sign square".split()
BINARY = """add subtract multiply divide floor_divide remainder maximum minimum fmax fmin equal not_equal less less_equal
    greater greater_equal bitwise_and""".split()


def main():
    records = []
    for f in UNARY + BINARY:
        for s in VALUES:
            for t in VALUES if f in BINARY else [None]:
                types = [s] if t is None else [s, t]
                if not any("64[" in v for v in types) or f == "sign":  # NumPy returns floats
                    continue
                x = np.array(VALUES[s]).astype(s)
                operands = [x] if t is None else [x[:, None], np.array(VALUES[t]).astype(t)[None, :]]
                try:
                    r = getattr(np, f)(*operands)
                except (TypeError, OverflowError):
                    records.append({"f": f, "types": types})
                    continue
                if r.dtype == object:
                    continue
                if r.dtype.kind == "f" or "float64" in types:
                    records.append({"f": f, "types": types})
                    continue
                records.append({"f": f, "types": types, "dtype": str(r.dtype), "values": r.astype(np.int64).ravel().tolist()})
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in records)
    values = json.dumps(VALUES, separators=(",", ":"))
    Path(__file__).with_suffix(".json").write_text('{"values":' + values + ',"cases":[\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
