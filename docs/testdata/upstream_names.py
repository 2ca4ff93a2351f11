"""Lists the public names and parameters of pyarrow.cuda, pygpu and zarr-python's buffers from their sources.

    python docs/testdata/upstream_names.py pyarrow-cuda > docs/testdata/pyarrow-cuda.txt
    python docs/testdata/upstream_names.py zarr-buffers > docs/testdata/zarr-buffers.txt
    python docs/testdata/upstream_names.py pygpu PATH/OF/libgpuarray/pygpu > docs/testdata/pygpu.txt

The first two read the packages installed beside this interpreter (requirements.txt has their versions);
pygpu is Theano/libgpuarray at 9cec61435c. No package is imported, so that no GPU is needed.
Go tests check that the tables of docs have a row for every line of these lists.
"""

import importlib.util
import pathlib
import re
import sys

# Special methods that a program calls by an operator, a built-in function or a statement.
SPECIAL = {
    "__getitem__", "__setitem__", "__len__", "__bool__", "__eq__", "__call__", "__enter__", "__exit__", "__array__",
    "__copy__", "__deepcopy__", "__hash__", "__str__", "__repr__", "__reduce__", "__reduce_ex__", "__richcmp__",
    "__getbuffer__", "__iter__", "__next__", "__sub__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
} | {
    f"__{reflected}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "div")
    for reflected in ("", "r", "i")
} | {f"__{name}__" for name in ("neg", "pos", "abs", "lt", "le", "eq", "ne", "ge", "gt")}


def split(text):
    """Splits arguments at commas outside of brackets and strings."""
    parts, depth, quote, part = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            parts.append(part)
            part = ""
            continue
        part += c
    return [p.strip() for p in [*parts, part] if p.strip()]


def parameter(text):
    """Removes the types of Cython and of annotations: 'int64_t position=0' is 'position=0'."""
    declared, equals, default = text.partition("=")
    declared = re.sub(r"\s+not None$", "", declared.split(":")[0].strip())
    return declared.split()[-1].split("]")[-1].strip() + equals + default.strip()


def names(path):
    """Yields (class or '', name, parameters or None for a property) of a Python or Cython source."""
    stack, text, property_of = [], path.read_text(), None
    text = re.sub(r'("""|\'\'\')(.*?)\1', lambda m: "'doc'" + "\n" * m.group(0).count("\n"), text, flags=re.S)
    decorators = []
    for m in re.finditer(r"^([ ]*)(@[^\n]*|(?:cdef |cpdef |async )?(?:api )?(?:class|def|property|int|readonly)\b[^\n]*|cdef [^\n]*)", text, re.M):
        indent, line = len(m.group(1)), m.group(2)
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if line.startswith("@"):
            decorators.append(line)
            continue
        found = re.match(r"(?:cdef )?(?:api )?class (\w+)", line)
        if found:
            stack.append((indent, "class", found.group(1)))
            decorators = []
            if re.search(r"\(\w*(Exception|Error)\)", line):
                yield "", found.group(1), None
            continue
        found = re.match(r"property (\w+)", line)
        if found:
            stack.append((indent, "property", found.group(1)))
            yield stack[-2][2], found.group(1), None
            continue
        found = re.match(r"cdef readonly \w+ (\w+)", line)
        if found and stack:
            yield stack[-1][2], found.group(1), None
            continue
        if line.startswith("cdef "):
            decorators = []  # of a C function
            continue
        found = re.match(r"(?:async )?(?:def|cpdef(?: \w+)?) (\w+)(?:\[[^\]]*\])?\(", line)
        if not found:
            continue
        if any(kind == "property" for _, kind, _ in stack):
            continue  # __get__ and __set__
        outer = [name for _, kind, name in stack if kind == "class"]
        inner = any(kind == "def" for _, kind, _ in stack)
        stack.append((indent, "def", found.group(1)))
        held, decorators = decorators, []
        if inner or any(".setter" in d or "overload" in d for d in held):
            continue
        if any(d in ("@property", "@cached_property") for d in held):
            yield ".".join(outer), found.group(1), None
            continue
        start = m.start(2) + m.group(2).index("(") + 1
        depth, end = 1, start
        while depth:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[end], 0)
            end += 1
        arguments = re.sub(r"#[^\n]*", "", text[start : end - 1]).replace("\n", " ")
        parameters = [parameter(a) for a in split(arguments)]
        if outer and not any("staticmethod" in d for d in held):
            parameters = parameters[1:]  # self or cls
        yield ".".join(outer), found.group(1), [p for p in parameters if p not in ("*", "/")]


def body(path, outer, name):
    """Returns the text of a method, to the next one."""
    text = path.read_text()
    text = text[re.search(rf"class {outer}\b", text).start() :]
    text = text[text.index(f"def {name}(") :]
    return text[: (re.search(r"\n(?:    )?(?:def|class|cdef class) ", text[4:]) or re.search(r"$", text)).start() + 4]


def public(module, path, classes=None, functions=None, having=None, only=None):
    """Prints the public names of one source, each once; constructors as the class itself."""
    seen = set()
    lines = []
    for outer, name, parameters in names(path):
        if classes is not None and outer and outer not in classes:
            continue
        if functions is not None and not outer and name not in functions:
            continue
        if any(part.startswith("_") for part in outer.split(".")):
            continue
        if only is not None and name not in only:
            continue
        if having is not None and having not in [p.split("=")[0] for p in parameters or []]:
            continue
        popped = re.findall(r"(?<=kwargs.pop\()'\w+', \w+", body(path, outer, name)) if "**kwargs" in (parameters or []) else []
        if popped:  # the dictionary's keys
            parameters = ["*args"] + [p.replace("'", "").replace(", ", "=") for p in popped]
        parameters = [p for p in parameters if p not in ("*a", "**kwa")] if parameters else parameters
        if name in ("__init__", "__cinit__", "__new__"):
            full = outer
            # A Cython class has both; the one with parameters counts.
            if full in seen and not parameters:
                continue
            lines = [line for line in lines if line.split("(")[0] != module + full]
        elif only is None and name.startswith("_") and name not in SPECIAL:
            continue
        else:
            full = f"{outer}.{name}" if outer else name
            if full in seen:
                continue
        seen.add(full)
        lines.append(module + full + ("" if parameters is None else f"({', '.join(parameters)})"))
    print(*lines, sep="\n")


def installed(package):
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def pyarrow_cuda():
    folder = installed("pyarrow")
    exported = set(re.findall(r"\w+", (folder / "cuda.py").read_text().split("import", 1)[1]))
    public("", folder / "_cuda.pyx", functions=exported)
    # What CudaBuffer and HostBuffer, BufferReader and BufferWriter inherit.
    public("", folder / "io.pxi", classes={"Buffer", "NativeFile"}, functions=set())
    # What pyarrow has for devices outside of pyarrow.cuda.
    public("", folder / "device.pxi", classes={"Device", "MemoryManager"})
    device = {"copy_to", "device_type", "is_cpu", "_export_to_c_device", "_import_from_c_device", "__arrow_c_device_array__"}
    public("", folder / "array.pxi", classes={"Array"}, functions=set(), only=device | {"__dlpack__", "__dlpack_device__"})
    public("", folder / "table.pxi", classes={"RecordBatch", "ChunkedArray", "Table"}, functions=set(), only=device)


def pygpu(folder):
    public("", folder / "__init__.py")
    public("gpuarray.", folder / "gpuarray.pyx")
    public("gpuarray.", folder / "gpuarray.pxd", functions=set())
    print("gpuarray.SIZE", "gpuarray.SSIZE", sep="\n")
    public("_array.", folder / "_array.py")
    for module in ("basic", "dtypes", "elemwise", "operations", "reduction", "tools"):
        public(module + ".", folder / f"{module}.py")
    public("elemwise.", folder / "_elemwise.pyx")
    public("blas.", folder / "blas.pyx")


def zarr_buffers():
    folder = installed("zarr")
    public("", folder / "core/buffer/core.py")
    print("BufferPrototype(buffer, nd_buffer)")
    for device in ("cpu", "gpu"):
        public(device + ".", folder / f"core/buffer/{device}.py")
        print(device + ".buffer_prototype")
    public("config.", folder / "core/config.py", functions={"BadConfigError"}, classes={"Config"})
    registry = {"register_buffer", "register_ndbuffer", "get_buffer_class", "get_ndbuffer_class"}
    public("registry.", folder / "registry.py", functions=registry, classes=set())
    public("", folder / "core/array.py", functions=set(), classes={"Array", "AsyncArray"}, having="prototype")
    public("", folder / "abc/store.py", functions=set(), classes={"Store", "SupportsGetSync"}, having="prototype")
    public("", folder / "storage/_common.py", functions=set(), classes={"StorePath"}, having="prototype")
    public("zarr.testing.", folder / "testing/buffer.py")
    print("zarr.testing.TestNDArrayLike", "zarr.testing.TestBuffer", sep="\n")
    public("zarr.testing.", folder / "testing/utils.py", functions={"has_cupy", "gpu_test"}, classes=set())


if __name__ == "__main__":
    lists = {"pyarrow-cuda": pyarrow_cuda, "zarr-buffers": zarr_buffers, "pygpu": lambda: pygpu(pathlib.Path(sys.argv[2]))}
    lists[sys.argv[1]]()
