"""Writes dtype.json: what NumPy says about types. dtype_golden_test.go compares.

    python ndview/testdata/golden/dtype.py     (packages: requirements.txt)

Tables have one row and one column for each type of their list. Values are hex
of little-endian bytes. An error is written as its kind: "range" where the value
does not fit, "dtype" where the types do not.
"""

import json
import pathlib
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
np.seterr(all="ignore")
BF = np.dtype(ml_dtypes.bfloat16)
NUMERIC = ["|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "bfloat16", "<c8", "<c16"]
UNITS = ["", "[Y]", "[2Y]", "[M]", "[6M]", "[12M]", "[10M]", "[W]", "[D]", "[7D]", "[4D]", "[h]", "[m]", "[s]", "[1000ms]", "[60s]",
         "[7s]", "[14s]", "[us]", "[250us]", "[ns]", "[2147483647ns]", "[ps]", "[fs]", "[as]"]
TIMES = ["<M8" + u for u in UNITS] + ["<m8" + u for u in UNITS]
RECORDS = [
    [["a", "<i4"], ["b", "<f8"]], [["a", "<i4"], ["b", "<f4"]], [["c", "<i4"], ["d", "<f8"]], [["a", "<i8"], ["b", "<f8"]],
    [["a", "<i4"]], [["a", "<i4"], ["", "|V4"], ["b", "<f8"]], [["a", "<i4", [2]], ["b", "<f8"]], [["a", "<i4", [3]], ["b", "<f8"]],
    {"names": ["b", "a"], "formats": ["<f8", "<i4"], "offsets": [4, 0], "itemsize": 12}, [["a", "<c8"], ["b", "<f4"]],
    [["a", "<i4"], ["b", [["x", "<i2"], ["t", "<M8[s]"]]]], [["a", "<i4"], ["b", [["x", "<i4"], ["t", "<M8[ms]"]]]],
]
BYTES = ["|V1", "|V4", "|V8", "|V12", "|V16"]


def numpy_type(t):
    """The dtype of a string, or of a structured type as JSON has it."""
    if isinstance(t, list):
        fields, gaps = [], 0
        for name, form, *shape in t:
            if name == "":
                name, gaps = f"\0{gaps}", gaps + 1
            fields.append((name, numpy_type(form), *(tuple(s) if isinstance(s, list) else s for s in shape)))
        made = np.dtype(fields)
        names = [n for n in made.names if n[0] != "\0"]
        return made[names] if gaps else made
    if isinstance(t, dict):
        return np.dtype({**t, "formats": [numpy_type(f) for f in t["formats"]]})
    return BF if t == "bfloat16" else np.dtype(t)


def name(d):
    """What the Go side reads back."""
    if d == BF:
        return "bfloat16"
    if d.names is None:
        return d.str
    return json.dumps({"names": d.names, "formats": [form(d[n]) for n in d.names],
                       "offsets": [d.fields[n][1] for n in d.names], "itemsize": d.itemsize})


def form(d):
    if d.subdtype:
        return [form(d.subdtype[0]), list(d.subdtype[1])]
    return json.loads(name(d)) if d.names else name(d)


def text(t):
    return t if isinstance(t, str) else json.dumps(t)


def attempt(f):
    try:
        return f()
    except (OverflowError, ValueError) as e:
        return "dtype" if "unit" in str(e) and "datetime64 units" not in str(e) or "object" in str(e) else "range"
    except TypeError:
        return "dtype"


def level(a, b):
    for rule in ["no", "equiv", "safe", "same_kind", "unsafe"]:
        if np.can_cast(a, b, rule):
            return rule[0] if rule != "same_kind" else "k"
    return "x"


def promote(*types):
    try:
        return name(np.result_type(*types))
    except (TypeError, OverflowError):
        return ""


def letters(types):
    """Every triple of types, a letter each: the place of the result, or a dot."""
    dtypes = [numpy_type(t) for t in types]
    places = {name(d): chr(ord("A") + i) for i, d in enumerate(dtypes)}
    return ["".join(places.get(promote(a, b, c), ".") for b in dtypes for c in dtypes) for a in dtypes]


golden = {}

types = NUMERIC + TIMES + BYTES
dtypes = [numpy_type(t) for t in types]
golden["promote"] = {"types": types, "rows": [[promote(a, b) for b in dtypes] for a in dtypes]}
golden["records"] = {"types": [text(r) for r in RECORDS],
                     "rows": [[promote(numpy_type(a), numpy_type(b)) for b in RECORDS] for a in RECORDS]}
some = NUMERIC + ["<m8[s]", "<M8[s]"]
golden["triples"] = {"types": some, "rows": letters(some)}

types = NUMERIC + TIMES + BYTES + RECORDS
dtypes = [numpy_type(t) for t in types]
golden["cast"] = {"types": [text(t) for t in types], "rows": ["".join(level(a, b) for b in dtypes) for a in dtypes]}

# Strings, and what NumPy's str and name of them are; null where it refuses.
strings = """i4 <i4 >i4 =i4 |i4 |i1 <i1 >u8 ? b1 |b1 <b1 b B h H i I l L q Q p P e f d F D f2 f4 f8 >f8 c8 >c16 bool bool_ int8 uint64 float16
float64 complex64 complex128 half single double float int complex byte ubyte short ushort intc uintc int_ uint intp uintp long ulong longlong
ulonglong csingle cdouble V5 |V5 <V5 >V12 M8 m8 <M8 M8[generic] M8[7generic] <M8[25us] >M8[25us] M8[Y] m8[W] M8[D] M8[h] M8[m] M8[10ps] m8[fs]
m8[as] datetime64 datetime64[3D] timedelta64[ns] M8[\u03bcs] M8[2147483647s]
i3 u f3 c4 M8[B] M8[us M8us] M8[-1s] M8[] M8[3000000000s] V-1 u1x int0 float_ <int64 >float64""".split()
golden["strings"] = []
for s in strings + [" i4", "i4 ", "<", "M8[ s]"]:
    try:
        d = np.dtype(s)
        golden["strings"].append([s, d.str, d.name])
    except TypeError:
        golden["strings"].append([s, "", ""])

# Fields, packed and aligned.
LAYOUTS = [
    [["a", "|b1"], ["b", "<f8"], ["c", "<i2"]], [["a", "<i2"], ["b", "|i1", [3]], ["c", "<c8"]],
    [["a", "|u1"], ["b", "<c16"], ["c", "<f2"], ["d", "<M8[s]"], ["e", "|V3"]],
    [["a", "|u1"], ["in", [["x", "|i1"], ["y", "<i4", [2, 3]]]], ["z", "|u1"]],
    [["\u00e9 \"<>\" \\", "<i4"], ["b", "|V1", [5]]],
]


def layout(d):
    return {"size": d.itemsize, "offsets": [d.fields[n][1] for n in d.names]}


golden["layouts"] = []
for fields in LAYOUTS:
    packed = numpy_type(fields)
    tuples = lambda fs: [(n, tuples(t) if isinstance(t, list) else t, *map(tuple, s)) for n, t, *s in fs]
    golden["layouts"].append({"fields": json.dumps(fields), "packed": layout(packed),
                              "aligned": layout(np.dtype(tuples(fields), align=True))})


# NEP 50: Go's plain numbers, which are Python's. A value is [kind, text].
WEAK = [["bool", "true"], ["bool", "false"]]
WEAK += [["int", str(i)] for i in [0, 1, -1, 127, 128, -128, -129, 255, 256, 300, 32767, 32768, 65535, 65536, 70000, 16777217, 2**31 - 1, 2**31,
                                   -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]]
WEAK += [["float", x] for x in "0 -0.0 1.9 -1.9 -0.5 0.1 127.9 128 255.5 256 65504 65520 3e9 -3e9 1e10 9.3e18 -9.3e18 1.8e19 1.9e19 1e39 1e300 1e-8 nan inf".split()]
WEAK += [["complex", "2j"], ["complex", "(3.5+0j)"], ["complex", "0j"]]
PYTHON = {"bool": lambda s: s == "true", "int": int, "float": float, "complex": complex}
TARGETS = NUMERIC + ["<M8[s]", "<M8", "<m8[s]", "<m8", "|V8"]


def assign(t, value):
    a = np.zeros(1, numpy_type(t))
    a[0] = value
    return a.tobytes().hex()


golden["weak"] = {"types": TARGETS, "values": []}
for kind, s in WEAK:
    value = PYTHON[kind](s)
    golden["weak"]["values"].append({
        "value": [kind, s],
        "result": [promote(numpy_type(t), value) for t in TARGETS],
        "stored": [attempt(lambda: assign(t, value)) for t in TARGETS],
    })

# Strong scalars: each value of its type, cast to each type. float64 to bfloat16
# is rounded twice by ml_dtypes, which shows in none of these.
STRONG = {
    "|b1": [0, 1], "|i1": [-128, -1, 127], "<i4": [-(2**31), -1, 2**24 + 1, 2**31 - 1], "<i8": [-(2**63), -2, 2**24 + 1, 2**53 + 1, 2**63 - 1],
    "<u2": [0, 40000, 65535], "<u8": [1, 2**63, 2**64 - 1], "<f2": [-0.0, 1.5, -2.75, 65504, np.inf, 6e-8],
    "<f4": [-0.0, 1.5, -2.75, 1e-45, 65519, 65520, 1 + 2**-11, 1 + 2**-8, 3e38], "<f8": [-0.0, 1.9, -1.9, 100, 1 + 2**-11 + 2**-40, 2**-25 * (1 + 2**-40), 1e300],
    "bfloat16": [-2.5, 100, 1e38], "<c8": [1.5 - 2j, 3j], "<c16": [-7.25 + 1e300j, 0], "<M8[s]": [-(2**63), -1, 0, 86400 * 365 + 5], "<M8[D]": [-1, 10957, 10**13],
    "<m8[s]": [-(2**63), -86401, 3], "<m8[Y]": [7, -1], "<m8[D]": [31, -400], "<M8[M]": [-1, 361], "<M8": [5], "<m8": [5],
}
TARGETS = NUMERIC + ["<M8[s]", "<M8[ms]", "<M8[D]", "<M8[W]", "<M8[M]", "<M8[2Y]", "<M8", "<m8[s]", "<m8[25ms]", "<m8[D]", "<m8[M]", "<m8[Y]", "<m8"]
FITS = {"i": lambda d: (np.iinfo(d).min, np.iinfo(d).max), "u": lambda d: (0, np.iinfo(d).max)}


def cast(a, t):
    to = numpy_type(t)
    if a.dtype == np.dtype("M8") and to in (np.dtype("M8[M]"), np.dtype("M8[2Y]")):
        return "?"  # an error that NumPy makes of no other unit
    if a.dtype.kind in "fc" or a.dtype == BF:
        real = float(a.real[0]) if a.dtype.kind == "c" else float(a[0])
        low, high = FITS.get(to.kind, lambda d: (-np.inf, np.inf))(to)
        if to.kind in "mM":
            low, high = -(2**63), 2**63 - 1
        if not (low <= real <= high) and to.kind in "iumM":
            return "?"  # the processor's
    return a.astype(to).tobytes().hex()


golden["strong"] = {"types": TARGETS, "values": []}
for t, values in STRONG.items():
    for v in values:
        d = numpy_type(t)
        a = np.array([v], np.int64).view(d) if d.kind in "mM" else np.array([v], np.complex128 if d.kind == "c" else None).astype(d)
        golden["strong"]["values"].append({"type": t, "bytes": a.tobytes().hex(), "cast": [attempt(lambda: cast(a, to)) for to in TARGETS]})

path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(golden, separators=(",", ":")).replace('],"', '],\n"').replace("},{", "},\n{").replace("],[", "],\n[") + "\n")
