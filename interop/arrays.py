"""NumPy arrays of every type and form, for share.py."""

import base64
import json

import ml_dtypes
import numpy as np

from quiver_share import layout


def every_array() -> dict[str, np.ndarray]:
    """Returns views of memory, of every dtype that Quiver has and in every form."""
    rng = np.random.default_rng(7)
    packed = np.dtype([("x", "<f4"), ("n", "<i8", (2, 3))])
    types = [*"?bhiqBHIQefdFD", "<M8[25us]", "<m8[ns]", "<m8", "V5", ml_dtypes.bfloat16, packed]
    types.append(np.dtype([("flag", "?"), ("inner", packed), ("ü", "<M8[s]")], align=True))
    types.append(np.dtype({"names": ["b", "a"], "formats": ["<f8", ("<i4", (2,))], "offsets": [8, 2], "itemsize": 20}))
    made = {}
    for i, kind in enumerate(types):
        kind = np.dtype(kind)
        memory = rng.integers(0, 2 if kind == bool else 256, 4096, "u1")
        if kind.names:
            memory[:] &= 1  # there may be bools among the fields
        whole = memory[: 60 * kind.itemsize].view(kind).reshape(3, 4, 5)
        views = {
            "C order": whole,
            "F order": whole.transpose(),
            "a column": whole[:, 2, 1],
            "reversed": whole[::-1, ::-1, ::-2],
            "broadcast": np.broadcast_to(whole[0, 0], (4, 5)),
            "windows": np.lib.stride_tricks.sliding_window_view(whole[0, 0], 3),
            "unaligned": memory[3 : 3 + 7 * kind.itemsize].view(kind),
            "0-d": whole[1, 2, 3, ...],
            "empty": whole[:, :0],
        }
        made |= {f"{i} {kind.name}, {form}": view for form, view in views.items()}
    return made


def described(name: str, a: np.ndarray) -> dict:
    """Describes an array for interop/ndarray: its place in memory, and the memory."""
    base = a
    while (inner := getattr(base, "base", None)) is not None:  # not an array everywhere: windows have a base of their own
        base = inner
    memory = base.reshape(-1).view("u1")
    kind = layout.of_dtype(a.dtype)
    return {
        "Name": name,
        "DType": kind if isinstance(kind, str) else json.dumps(kind),
        "Offset": a.__array_interface__["data"][0] - memory.__array_interface__["data"][0],
        "Shape": a.shape,
        "Strides": a.strides,
        "Bytes": base64.b64encode(memory.tobytes()).decode(),
    }


def check(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Compares type, layout and bytes: NaNs and the gaps of records differ otherwise."""
    if got.dtype != want.dtype or got.shape != want.shape or (want.size and got.strides != want.strides):
        raise AssertionError(f"{name}: got {got.dtype} {got.shape} {got.strides}, want {want.dtype} {want.shape} {want.strides}")
    if want.size and got.flags.writeable:
        raise AssertionError(f"{name}: the array is writeable")
    if raw(got) != raw(want):
        raise AssertionError(f"{name}: elements differ")


def raw(a: np.ndarray) -> bytes:
    """Returns the bytes of the elements in C order. One at a time, NumPy copies gaps, too."""
    return b"".join(a[(*i, ...)].tobytes() for i in np.ndindex(a.shape))
