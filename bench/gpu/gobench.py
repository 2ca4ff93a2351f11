"""Runs the bundled Go benchmarks on this machine's GPU."""

import os
import site
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import goresults  # noqa: E402
import record  # noqa: E402

GPU = record.ROOT / ".gpu"


def commit() -> str:
    """The commit from which the bundle was built."""
    return (GPU / "commit").read_text().strip()


def nccl() -> str:
    """The path of the NCCL that PyTorch uses, or "" without one."""
    for place in [*site.getsitepackages(), site.getusersitepackages(), *sys.path]:
        if (path := Path(place) / "nvidia/nccl/lib/libnccl.so.2").exists():
            return str(path)
    return ""


def run(package: str, benchmarks: str, *flags: str, rounds: int = 5, folder: str = "tests", seconds: int = 240) -> dict[str, dict[str, float]]:
    """Runs a package's benchmarks and returns the median of their rounds, by name and
    unit. Failures are in the log."""
    command = [str(GPU / folder / package.replace("/", "+")), "-test.run=^$", f"-test.bench={benchmarks}",
               f"-test.count={rounds}", f"-test.timeout={seconds - 5}s", *flags]  # fmt: skip
    environment = {"QUIVER_TEST_DEVICE": "cuda"} | os.environ
    done = subprocess.run(command, cwd=record.ROOT / package, env=environment, capture_output=True, text=True, timeout=seconds)
    print(done.stdout, done.stderr)
    figures = goresults.figures(done.stdout)
    # A failed benchmark is only missing from the figures.
    if done.returncode != 0 and not figures:
        raise RuntimeError(f"benchmarks of {package}: exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-500:]}")
    return figures
