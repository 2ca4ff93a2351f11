"""The topic cudabuf: the cost of single operations of package cudabuf. The peers are
CuPy, PyTorch and RMM; the limit is plain C.

The limit of copies of 1 GiB of pageable memory is the rate of pinned memory. The peer
of a record is the fastest library; `peers` lists all of them.
"""

import ctypes
import json
import shutil
import site
import subprocess
import sys
from pathlib import Path

import gobench
import record

HERE = Path(__file__).resolve().parent
SPEED = record.ROOT / "cudabuf/testdata/speed.ptx"
LIBRARIES = {"cupy": "CuPy", "torch": "PyTorch", "rmm": "RMM in Python"}

# Record, Go benchmark, its unit, key of the peers and of C.
OPERATIONS = [
    ("pool-alloc-free-1", "AllocFree/1goroutines", "ns/op", "alloc_free_1"),
    ("pool-alloc-free-16", "AllocFree/16goroutines", "ns/op", "alloc_free_16"),
    ("pool-alloc-free-16-each", "AllocFree/16goroutines", "ns/each", "alloc_free_16_each"),
    ("alloc-on-stream-caching", "AllocOn/caching", "ns/op", "alloc_free_1"),
    ("alloc-on-stream-ordered", "AllocOn/stream-ordered", "ns/op", "alloc_async"),
    ("launch-small", "LaunchSmall", "ns/op", "launch"),
    ("event-record-wait", "Event", "ns/op", "event"),
    ("stream-make-close", "Stream", "ns/op", "stream"),
    *((f"{way}-{size.lower()}", f"CopySmall/{way}/{size}", "ns/op", f"{way}_{size}") for way in ("h2d", "d2h") for size in ("1KiB", "64KiB", "1024KiB")),
]
# Benchmarks whose names end in the device, at any depth.
PATTERN = "^Benchmark({0})$/^cuda$|^Benchmark({0})$/./^cuda$|^Benchmark({0})$/././^cuda$"
COPIES = [("h2d-pageable", "CopyHostToDevice", "h2d"), ("d2h-pageable", "CopyDeviceToHost", "d2h")]


def peers(faults: list[str]) -> dict[str, dict[str, float]]:
    """The figures of each library. A missing or failing library is a fault."""
    found = {}
    for name, library in LIBRARIES.items():
        command = [sys.executable, str(HERE / "cudabuf_peers.py"), name]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=200)
            found[name] = json.loads(run.stdout) if run.returncode == 0 else {}
            if run.returncode:
                faults.append(f"{library}: {run.stderr.strip().splitlines()[-1:]}")
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            found[name] = {}
            faults.append(f"{library}: {e}")
        print(library, json.dumps(found[name], indent=2), flush=True)
    return found


def cuda_header() -> Path:
    """The folder of cuda.h, from the compiler or a Python package."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    folders = [Path(nvcc).resolve().parent.parent / "include", Path("/usr/local/cuda/include")]
    folders += [found.parent for place in site.getsitepackages() for found in Path(place).glob("nvidia/*/include/cuda.h")]
    return next((folder for folder in folders if (folder / "cuda.h").exists()), folders[0])


def plain_c(*only: str) -> dict[str, float]:
    """Compiles limits.c against the driver library and returns its figures, or only
    one."""
    ctypes.CDLL("libcuda.so.1")
    libcuda = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libcuda.so" in line)
    binary = gobench.GPU / "limits"
    command = ["gcc", "-O2", f"-I{cuda_header()}", "-o", str(binary), str(HERE / "limits.c"), libcuda]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {built.stderr[-500:]}")
    run = subprocess.run([str(binary), str(SPEED), *only], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise RuntimeError(f"limits.c: {run.stderr}")
    print("C", run.stdout, flush=True)
    return json.loads(run.stdout)


class Figures:
    """The figures of peers and limits, and the records."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.records: list[dict] = []
        self.peers = peers(self.faults)
        self.c = self.attempt("C", plain_c) or {}

    def attempt(self, what: str, measure, *arguments, **options):
        """Calls measure; an exception becomes a fault."""
        try:
            return measure(*arguments, **options)
        except Exception as e:  # the other figures remain useful
            self.faults.append(f"{what}: {e}")
            return None

    def add(self, name: str, unit: str, value: float, command: str, key: str = "", limit: tuple[str, float] | None = None, **more) -> None:
        others = {LIBRARIES[n]: round(figures[key], 4) for n, figures in self.peers.items() if key in figures}
        options: dict = {}
        if others:
            best = (min if unit in record.COSTS else max)(others, key=others.__getitem__)
            options = {"peer": best, "peer_value": others[best], "peers": others}
        if limit:
            options |= {"limit": limit[0], "limit_value": limit[1]}
        self.records.append(record.record(name, unit, value, command, **options, **more))

    def missing(self, name: str) -> None:
        self.faults.append(f"{name}: its benchmark gave no figure for the GPU, see the log")


def show(benchmark: str, tags: str = "") -> str:
    return f"go test{tags} ./cudabuf -bench '{benchmark.replace('/', '$/')}$'"


def operations(figures: Figures) -> None:
    names = "|".join(dict.fromkeys(benchmark.partition("/")[0] for _, benchmark, _, _ in OPERATIONS))
    got = figures.attempt("operations", gobench.run, "cudabuf", PATTERN.format(names), "-test.benchtime=0.3s")
    for name, benchmark, unit, key in OPERATIONS:
        if not got or f"{benchmark}/cuda" not in got:
            figures.missing(name)
            continue
        units = got[f"{benchmark}/cuda"]
        limit = ("the same loop in C", figures.c[key]) if key in figures.c else None
        more = {"allocs": units["allocs/op"]} if "allocs/op" in units else {}
        figures.add(name, "us", units[unit] / 1e3, show(benchmark), key, limit, **more)


def driver_calls(figures: Figures) -> None:
    """Measures both drivers that call libcuda."""
    for driver, folder, tags in (("purego", "tests", ""), ("gorgonia", "gorgonia", " -tags gorgonia")):
        if not (gobench.GPU / folder / "cudabuf").exists():
            figures.faults.append(f"driver-call-{driver}: no binary in .gpu/{folder}")
            continue
        got = figures.attempt(driver, gobench.run, "cudabuf", "^Benchmark(DriverCall|LaunchSmall)$/^cuda$", "-test.benchtime=0.3s", folder=folder) or {}
        wanted = [(f"driver-call-{driver}", "DriverCall", "call")]
        if tags:
            wanted.append((f"launch-small-{driver}", "LaunchSmall", "launch"))
        for name, benchmark, key in wanted:
            if f"{benchmark}/cuda" not in got:
                figures.missing(name)
                continue
            limit = ("the same loop in C", figures.c[key]) if key in figures.c else None
            figures.add(name, "us", got[f"{benchmark}/cuda"]["ns/op"] / 1e3, show(benchmark, tags), limit=limit)


def copies(figures: Figures) -> None:
    """Measures copies of 1 GiB of pageable memory."""
    pattern = "^BenchmarkCopy(HostToDevice|DeviceToHost)$/^(pinned|pageable|registered)$/^(64|1024)MiB$/^cuda$"
    got = figures.attempt("copies", gobench.run, "cudabuf", pattern, "-test.benchtime=0.3s") or {}
    for name, benchmark, way in COPIES:
        rates = {n.removeprefix(f"{benchmark}/"): u["MB/s"] / 1e3 for n, u in got.items() if n.startswith(f"{benchmark}/")}
        pageable, pinned = rates.get("pageable/1024MiB/cuda"), rates.get("pinned/1024MiB/cuda", 0)
        if pageable is None:
            figures.missing(name)
            continue
        # The faster of ours and CuPy's.
        pinned = max(pinned, figures.peers["cupy"].get(f"{way}_pinned", 0))
        limit = ("a copy of pinned memory", pinned) if pinned else None
        others = {n.removesuffix("/cuda"): round(r, 2) for n, r in rates.items()}
        figures.add(name, "GB/s", pageable, show(f"{benchmark}/pageable/1024MiB"), f"{way}_pageable", limit, kinds=others)


def fragmentation(figures: Figures) -> None:
    """Measures a million random allocations."""
    got = figures.attempt("fragmentation", gobench.run, "cudabuf", "^BenchmarkTrace$/./^cuda$", "-test.benchtime=1x", rounds=1) or {}
    for name, sizes in (("pool-fragmentation", "uniform"), ("pool-fragmentation-mixed", "mixed")):
        benchmark = f"Trace/{sizes}"
        if f"{benchmark}/cuda" not in got:
            figures.missing(name)
            continue
        units = got[f"{benchmark}/cuda"]
        figures.add(name, "held/peak", units["held/peak"], f"{show(benchmark)} -benchtime 1x", f"held_{sizes}", at_the_end=units["end/peak"])


def records() -> tuple[list[dict], list[str]]:
    """The records and the faults."""
    figures = Figures()
    for measure in (copies, operations, driver_calls, fragmentation):
        figures.attempt(measure.__name__, measure, figures)
    return figures.records, figures.faults


def pin_records() -> tuple[list[dict], list[str]]:
    """How fast large memory is pinned and freed."""
    ours = gobench.run("cudabuf", "^BenchmarkPin$", rounds=3)
    registered, driver = (ours.get(f"Pin/cuda/{kind}") for kind in ("registered", "cuMemHostAlloc"))
    if not registered or not driver:
        return [], ["pin-64m: its benchmark gave no figure, see the log"]
    command = "go test ./cudabuf -bench 'Pin$'"
    return [record.record("pin-64m", "GB/s", registered["MB/s"] / 1e3, command, peer="cuMemHostAlloc", peer_value=driver["MB/s"] / 1e3)], []
