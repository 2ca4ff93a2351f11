"""The topic kernels: BenchmarkUnpackBits of package ndview, whose MB/s count the
bytes read plus written, against cupy.unpackbits, as a share of the device's own
copy; the package's other benchmarks are recorded beside it."""

import re

import gobench
import record

NAMES = {"UnpackBits": "bits-unpack", "UnpackBitsShifted": "bits-unpack-shifted"}


def records(cupy: dict[str, float]) -> list[dict]:
    """The kernels of ndview as shares of a copy on the device; the bits against
    the better order of CuPy's."""
    figures = gobench.run("ndview", "/^cuda$|/./^cuda$", "-test.benchtime=0.5s")
    rates = {m[1]: units["MB/s"] / 1e3 for name, units in figures.items() if (m := re.match(r"(.*)/cuda/\d+MiB$", name))}
    order = max(("big", "little"), key=lambda o: cupy[f"unpackbits_{o}"])
    found = []
    for name, rate in rates.items():
        peer = {}
        if name.startswith("UnpackBits"):
            peer = {"peer": f"cupy.unpackbits(bitorder={order!r})", "peer_value": cupy[f"unpackbits_{order}"],
                    "peer_in_arrow_order": round(cupy["unpackbits_little"], 1)}  # fmt: skip
        found.append(
            record.record(
                NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()),
                "GB/s", rate, f"go test ./ndview -bench {name.partition('/')[0]}$", **peer,
                limit="copy on the device", limit_value=cupy["device_copy"],
            )
        )  # fmt: skip
    if "bits-unpack" not in (r["name"] for r in found):
        raise RuntimeError(f"BenchmarkUnpackBits printed no MB/s on the device: {rates}")
    return found
