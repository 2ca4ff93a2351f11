"""The topic blas: products of matrices and vectors that lie on the GPU, beside PyTorch and
CuPy. Ours and theirs take short turns on the same GPU, since its clock varies, and each
begins as often as the others. A figure is the median of the turns. There are more of them
until all medians are certain to half a percent, or MOST is reached.

Matrices of 8192 rows are multiplied in each type ("tf32" is float32 with TF32 allowed,
"fp8" E4M3 with a result of bfloat16),
and batches of 64 to 1024 rows; gemv, ger and dot read 1 GiB. Figures are TFLOPS (of
integers TOPS) for the products of matrices (of complex numbers, 8 operations each), GB/s of what is read and
written otherwise, and for "launch" the host's time per call, in us. The peer is the
faster of PyTorch and CuPy, which both use cuBLAS; PyTorch has no integers on a GPU.

"random-products" is the number of random products, of all dtypes, layouts and options, that
equal CuPy's.
"""

import os
import statistics
import subprocess
import sys
import time

import cupy as cp
import cupy.cublas
import torch

import gobench
from gobench import record

ROUND = 6  # turns, a multiple of the number of sides
MOST = 36
BATCHES = {64: 4096, 128: 2048, 256: 512, 512: 128, 1024: 32}
CASES = [*(f"gemm/{t}/8192" for t in ("fp8", "bf16", "f16", "tf32", "f32", "f64", "c64")),
         *(f"batch/{t}/{n}" for n in BATCHES for t in ("bf16", "f32")),
         "gemm/i32/2048", "gemm/i8/2048", "gemv/f32/16384", "gemvt/f32/16384", "gemv/bf16/16384", "gemvt/bf16/16384",
         "ger/f32/16384", "outer/f32/16384", "dot/f32/134217728", "dot/bf16/268435456", "dot/i32/134217728", "launch/f32/64"]  # fmt: skip
TYPES = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32, "f64": torch.float64,
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
    if dtype == torch.float8_e4m3fn:  # from 1/8 to 15/8, of both signs
        bits = torch.randint(0x20, 0x40, (part,), device="cuda") | torch.randint(0, 2, (part,), device="cuda") << 7
        return bits.to(torch.uint8).repeat(count // part).reshape(shape).view(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(part, dtype=torch.float64, device="cuda").to(dtype)
    else:
        values = torch.randint(-50, 50, (part,), device="cuda").to(dtype)
    return values.repeat(count // part).reshape(shape)


def peers(name):
    """Returns functions that compute a case, by library."""
    operation, type_name, n = name.split("/")
    n, t = int(n), TYPES[type_name]
    if operation == "launch":
        x, y, z = (noise(t, n, n) for _ in range(3))
        torch.backends.cuda.matmul.allow_tf32 = False
        return {"PyTorch": lambda: torch.mm(x, y, out=z)}
    if type_name == "fp8":
        x, y = noise(t, n, n), noise(t, n, n).t()
        one = torch.ones((), device="cuda")
        return {"PyTorch": lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)}
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


def gpu_timer(work):
    """Returns a function that measures the time of a call on the GPU in us, by the rule of
    the Go benchmark."""
    stream = torch.cuda.current_stream()
    calls = 0

    def run(n):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(n):
            work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def measure():
        nonlocal calls
        with cp.cuda.ExternalStream(stream.cuda_stream):
            run(1)
            calls = calls or max(1, int(30_000 / max(run(1), 1)))
            return run(calls) / calls

    return measure


def launch_time(work):
    """The host's time per call in us."""
    best = 1e9
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            work()
        best = min(best, (time.perf_counter() - start) / 500 * 1e6)
    return best


class Ours:
    """The Go benchmark, which measures a case for each line that it reads."""

    def __init__(self):
        command = [str(gobench.GPU / "tests/ndview+blas"), "-test.run=^$", "-test.bench=^BenchmarkTurns$", "-test.benchtime=1x"]
        self.process = subprocess.Popen(command, cwd=record.ROOT / "ndview/blas", env={"QUIVER_TEST_DEVICE": "cuda"} | os.environ,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def time(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("turn "):
                return float(line.split()[1])
        raise RuntimeError(f"the Go benchmark ended at {name}")

    def close(self):
        self.process.stdin.close()
        print(self.process.stdout.read())
        if self.process.wait():
            raise RuntimeError(f"the Go benchmark: exit code {self.process.returncode}")


def uncertain(times):
    """Whether the median of some times is uncertain: their spread over the root of their
    number is the scale of its error."""
    low, middle, high = statistics.quantiles(times, n=4)
    return (high - low) / middle / len(times) ** 0.5 > 0.005


def measure(ours, name):
    """The times of each side in us, by its name."""
    work = peers(name)
    timer = (lambda w: lambda: launch_time(w)) if name.startswith("launch/") else gpu_timer
    sides = {"Quiver": lambda: ours.time(name)} | {peer: timer(w) for peer, w in work.items()}
    times = {side: [] for side in sides}
    order = list(sides)
    for turn in range(MOST):
        if turn >= 2 * ROUND and turn % ROUND == 0 and not any(uncertain(t) for t in times.values()):
            break
        first = turn % len(order)
        for side in order[first:] + order[:first]:
            times[side].append(sides[side]())
    return times


def random_products(count):
    """Lets the Go tests compare random products with CuPy's, and returns how many agree."""
    cases = gobench.GPU / "cupy.json"
    with cases.open("w") as f:
        subprocess.run([sys.executable, record.ROOT / "ndview/blas/testdata/golden/blas.py", "--cupy", str(count), str(time.time_ns())], stdout=f, check=True)
    ended = subprocess.run([gobench.GPU / "tests/ndview+blas", "-test.run=^TestProductsMatchNumPy$/^cuda$", "-test.v"], cwd=record.ROOT / "ndview/blas",
                           env={"QUIVER_TEST_DEVICE": "cuda", "QUIVER_BLAS_CASES": str(cases)} | os.environ, capture_output=True, text=True)  # fmt: skip
    passed = ended.stdout.count("--- PASS: TestProductsMatchNumPy/cuda/")
    if ended.returncode or passed != count:
        raise RuntimeError(f"{passed} of {count} random products equal CuPy's\n{ended.stdout[-3000:]}{ended.stderr[-500:]}")
    return passed


def records():
    command = "bench-blas"
    found, faults = [], []
    try:
        found.append(record.record("blas-random-products", "cases", random_products(1500), command))
    except (OSError, RuntimeError, subprocess.SubprocessError) as e:
        faults.append(str(e))
    ours = Ours()
    for name in CASES:
        try:
            times = measure(ours, name)
        except Exception as e:  # the other cases remain useful
            faults.append(f"{name}: {e!r}")
            if ours.process.poll() is not None:
                break
            continue
        finally:
            torch.cuda.empty_cache()
        mine = times.pop("Quiver")
        us = statistics.median(mine)
        peer, peer_us = min(((p, statistics.median(t)) for p, t in times.items()), key=lambda x: x[1])
        label = "blas-" + name.replace("/", "-")
        details = {"turns": len(mine), "all_us": [round(t, 2) for t in mine], "peers_us": {p: [round(x, 2) for x in t] for p, t in times.items()}}
        operation, type_name, n = name.split("/")
        if operation == "launch":
            found.append(record.record(label, "us", us, command, peer=peer, peer_value=peer_us, **details))
            continue
        flops = operation in ("gemm", "batch")
        unit, scale = ("TOPS" if type_name.startswith("i") else "TFLOPS", 1e6) if flops else ("GB/s", 1e3)
        rate = lambda t: WORK[operation](type_name, int(n)) / t / scale
        found.append(record.record(label, unit, rate(us), command, peer=peer, peer_value=rate(peer_us), **details))
    ours.close()
    return found, faults
