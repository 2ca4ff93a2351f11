"""The words of programs' lines, and the text of arrays."""

import zlib

import ml_dtypes
import numpy as np

SPELLED = 24


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def real_of(dtype):
    """Returns the type of the floats that elements consist of, or None."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return dtype if dtype.kind == "f" or dtype.name == "bfloat16" else None


def text(a):
    kind = f"{a.dtype if a.dtype.kind in 'mM' else a.dtype.name} [{','.join(map(str, a.shape))}]"
    flat, real = np.ascontiguousarray(a).reshape(-1), real_of(a.dtype)
    if a.size > SPELLED:
        raw = flat.view(f"u{real.itemsize}" if real else "u1").copy()
        if real:
            raw[np.isnan(flat.view(real))] = np.iinfo(raw.dtype).max
        return f"{kind} #{zlib.crc32(raw.tobytes()):08x}"
    if real:
        values = [repr(float(x)) for x in flat.view(real)]
    else:
        signed = flat.view("u1") if a.dtype.kind == "b" else flat.view("i8") if a.dtype.itemsize == 8 else flat
        values = [str(int(x)) for x in signed]
    return f"{kind} [{','.join(values)}]"


def numbers(word, of):
    return [of(x) for x in word[1:-1].split(",") if x]


def ints(word):
    return numbers(word, int)


def plain(word):
    """Returns a number of Python, which is weak."""
    if word in ("true", "false"):
        return word == "true"
    try:
        return int(word)
    except ValueError:
        return float(word)


def literal(dtype, shape, values):
    dtype = dtype_of(dtype)
    if dtype.kind in "mM":
        a = np.array([np.iinfo("i8").min if x != x else int(x) for x in values], "i8").view(dtype)
    elif dtype.kind == "c":
        a = np.array(values, float).view("c16").astype(dtype)
    else:
        a = np.array(values, float).astype(dtype)
    return a.reshape(ints(shape))


class Words:
    def __init__(self, arrays, left):
        self.arrays, self.left, self.first = arrays, left, None

    def next(self):
        return self.left.pop(0)

    def array(self):
        a = self.arrays[self.next()]
        if self.first is None:
            self.first = a
        return a

    def rest(self):
        return [self.array() for _ in range(len(self.left))]

    def int(self):
        return int(self.next())

    def ints(self):
        return ints(self.next())

    def flag(self):
        return self.next() == "true"

    def axes(self):
        word = self.next()
        return None if word == "-" else tuple(ints(word))

    def operand(self):
        if self.left[0][0] == "v":
            return self.array()
        word = self.next()
        if word == "-":
            return None
        dtype, strong, number = word.rpartition(":")
        return dtype_of(dtype).type(plain(number), *([dtype[12:-1]] if dtype[0] == "t" else [])) if strong else plain(number)

    def indices(self):
        if self.left[0][0] != "v":
            return np.array(self.ints(), "i8")
        a = self.array()
        return a.astype("i8") if a.dtype.kind in "iu" else a  # NumPy rejects uint64

    def keys(self):
        out = []
        for word in self.left:
            if word[0] == "v":
                out.append(self.arrays[word])
            elif word[0] == "[":
                out.append(np.array(ints(word), "i8"))
            elif word in ("new", "..."):
                out.append(None if word == "new" else Ellipsis)
            elif ":" in word:
                out.append(slice(*(int(x) if x else None for x in word.split(":"))))
            else:
                out.append(int(word))
        self.left = []
        return out
