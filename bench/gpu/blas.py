"""The topic blas: products of matrices and vectors that lie on the GPU, beside PyTorch and
CuPy. Ours and theirs take turns, and a figure is the median of the turns.

Matrices of 8192 rows are multiplied in each type ("tf32" is float32 with TF32 allowed),
and batches of 64 to 1024 rows; gemv, ger and dot read 1 GiB. Figures are TFLOPS (of
integers TOPS) for the products of matrices (of complex numbers, 8 operations each), GB/s of what is read and
written otherwise, and for "launch" the host's time per call, in us. The peer is the
faster of PyTorch and CuPy, which both use cuBLAS; PyTorch has no integers on a GPU.
"""

import statistics
import time

import cupy as cp
import cupy.cublas
import torch

import gobench
from gobench import record

TURNS = 3
BATCHES = {64: 4096, 128: 2048, 256: 512, 512: 128, 1024: 32}
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32, "f64": torch.float64,
         "c64": torch.complex64, "i32": torch.int32, "i8": torch.int8}  # fmt: skip
# What a case computes and moves: operations or bytes per call.
WORK = {
    "gemm": lambda t, n: 2 * n**3 * (4 if t == "c64" else 1),
    "batch": lambda t, n: 2 * n**3 * BATCHES[n],
    "gemv": lambda t, n: 4 * n * n,
    "gemvt": lambda t, n: 4 * n * n,
    "ger": lambda t, n: 8 * n * n,
    "outer": lambda t, n: 4 * n * n,
    "dot": lambda t, n: 2 * n * TYPES[t].itemsize,
}


def noise(dtype, *shape):
    count = 1
    for d in shape:
        count *= d
    part = min(max(count, 1), 1 << 20)
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(part, dtype=torch.float64, device="cuda").to(dtype)
    else:
        values = torch.randint(-50, 50, (part,), device="cuda").to(dtype)
    return values.repeat(count // part).reshape(shape)


def peers(name):
    """Returns functions that compute a case, by library."""
    operation, type_name, n = name.split("/")
    n, t = int(n), TYPES[type_name]
    rows = n * 4 // t.itemsize
    found = {}
    torch.backends.cuda.matmul.allow_tf32 = type_name == "tf32"
    shape = (BATCHES[n], n, n) if operation == "batch" else (n, n)
    if operation in ("gemm", "batch"):
        x, y, z = (noise(t, *shape) for _ in range(3))
        if not type_name.startswith("i"):
            found["PyTorch"] = lambda: torch.matmul(x, y, out=z)
        if type_name not in ("bf16", "tf32"):
            cx, cy, cz = map(cp.asarray, (x, y, z))
            found["CuPy"] = lambda: cp.matmul(cx, cy, out=cz)
    elif operation in ("gemv", "gemvt"):
        a, x, y = noise(t, rows, n), noise(t, n), noise(t, rows)
        if operation == "gemvt":
            found["PyTorch"] = lambda: torch.mv(a.t(), y, out=x)
        else:
            found["PyTorch"] = lambda: torch.mv(a, x, out=y)
        if type_name == "f32":
            # Of a matrix in Fortran order, the transpose is the one in C order.
            ca, cx, cy = cp.asarray(a).T, cp.asarray(x), cp.asarray(y)
            args = ("N", 1.0, ca, cy, 0.0, cx) if operation == "gemvt" else ("T", 1.0, ca, cx, 0.0, cy)
            found["CuPy"] = lambda: cp.cublas.gemv(*args)
    elif operation == "ger":
        a, x, y = noise(t, n, n), noise(t, n), noise(t, n)
        found["PyTorch"] = lambda: a.addr_(x, y, alpha=1e-3)
        ca, cx, cy = cp.asarray(a).T, cp.asarray(x), cp.asarray(y)
        found["CuPy"] = lambda: cp.cublas.ger(1e-3, cy, cx, ca)
    elif operation == "outer":
        a, x, y = noise(t, n, n), noise(t, n), noise(t, n)
        found["PyTorch"] = lambda: torch.outer(x, y, out=a)
        ca, cx, cy = map(cp.asarray, (a, x, y))
        found["CuPy"] = lambda: cp.multiply(cx[:, None], cy[None, :], out=ca)
    else:
        x, y = noise(t, n), noise(t, n)
        if type_name != "i32":
            found["PyTorch"] = lambda: torch.dot(x, y)
        if type_name != "bf16":
            cx, cy = cp.asarray(x), cp.asarray(y)
            found["CuPy"] = lambda: cp.dot(cx, cy)
    return found


def gpu_time(work):
    """The time of a call on the GPU in us, by the rule of the Go benchmark."""
    stream = torch.cuda.current_stream()

    def run(n):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(n):
            work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    with cp.cuda.ExternalStream(stream.cuda_stream):
        run(1)
        n = max(3, int(100_000 / max(run(1), 1)))
        return run(n) / n


def launch_time():
    x, y, z = (noise(torch.float32, 64, 64) for _ in range(3))
    torch.backends.cuda.matmul.allow_tf32 = False
    best = 1e9
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            torch.mm(x, y, out=z)
        best = min(best, (time.perf_counter() - start) / 500 * 1e6)
    return best


def records():
    ours, theirs, faults = {}, {}, []
    for turn in range(TURNS):
        printed = gobench.run("ndview/blas", "^BenchmarkProduct$", "-test.benchtime=1x", rounds=1)
        for name, units in printed.items():
            time_us = units.get("gpu-us", units.get("host-us"))
            ours.setdefault(name.removeprefix("Product/"), []).append(time_us)
        for name in ours:
            if name.startswith("launch/"):
                theirs.setdefault(name, {}).setdefault("PyTorch", []).append(launch_time())
                continue
            try:
                for library, work in peers(name).items():
                    took = gpu_time(work)
                    theirs.setdefault(name, {}).setdefault(library, []).append(took)
            except Exception as e:  # the other cases remain useful
                if turn == 0:
                    faults.append(f"{name}: {e!r}")
            torch.cuda.empty_cache()
    command = "bench-blas"
    found = []
    for name, times in ours.items():
        us = statistics.median(times)
        peer, peer_us = min(((p, statistics.median(t)) for p, t in theirs.get(name, {}).items()), key=lambda x: x[1], default=("", 0))
        label = "blas-" + name.replace("/", "-")
        if name.startswith("launch/"):
            found.append(record.record(label, "us", us, command, peer=peer, peer_value=peer_us, turns=TURNS))
            continue
        operation, type_name, n = name.split("/")
        flops = operation in ("gemm", "batch")
        unit, scale = ("TOPS" if type_name.startswith("i") else "TFLOPS", 1e6) if flops else ("GB/s", 1e3)
        rate = lambda t: WORK[operation](type_name, int(n)) / t / scale if t else 0
        found.append(record.record(label, unit, rate(us), command, peer=peer, peer_value=rate(peer_us), turns=TURNS,
                                   all_us=[round(t, 2) for t in times], peers_us={p: [round(x, 2) for x in t] for p, t in theirs.get(name, {}).items()}))  # fmt: skip
    return found, faults
