"""Runs the bundled test binaries on this machine's GPU.

Usage: tests.py STEP... --out FOLDER [--packages REGEX], run by run.sh. The steps:

tests           every package, on the driver without cgo
tests-gorgonia  the packages built with -tags gorgonia
tests-two       only the tests that need two GPUs
interop         columns shared with the Python client of clients/python and CuPy
sanitizer       the packages that launch kernels, under memcheck of compute-sanitizer
                with its leak check; only tests on the GPU, of the decoders and encoders
                only the short ones
mutations       a million changed inputs of each decoder, which may only fail themselves
kills           processes that share columns and are killed at random

FOLDER receives tests.log, sanitizer.log and a result file. Its topic is tests, or
sometests if --packages is given. Failures are printed. Every package has a time limit,
and every step a longer one, so that a hanging test affects only its step. The exit code
is 1 if anything failed.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gobench
from gobench import record

ROOT, GPU = record.ROOT, gobench.GPU
STEP_SECONDS = 500
PACKAGE_SECONDS = 400
JOBS = max(1, min(6, len(os.sched_getaffinity(0)) // 2))
# Their tests compare the free memory of the GPU, which other processes would change.
ALONE = re.compile(r"^cudabuf(/(?!internal/driver$|internal/pool$).*)?$|^ipc$")
SANITIZED = re.compile(r"^(cudabuf|cudabuf/nvrtc|cudabuf/internal/drivertest|ndview|ndview/kernel|ndview/columns|compress/\w+)$")
SANITIZER = ["--tool", "memcheck", "--leak-check", "full", "--target-processes", "application-only",
             # Tests of errors make failing calls.
             "--report-api-errors", "no", "--print-limit", "20"]  # fmt: skip
KILL_ROUNDS = 1000
MUTATED_INPUTS = 1_000_000
# The tests that change inputs of a format, and how often each changes QUIVER_MUTATED_INPUTS.
MUTATIONS = {
    "compress/blosc": ("TestACorruptChunkIsAnErrorOfItself/cuda", 1),
    "compress/gzip": ("TestACorruptInputIsAnErrorOfItself/cuda", 3),
    "compress/lz4": ("TestMutatedBlocksFailAlone/cuda", 3),
    "compress/zstd": ("TestMutatedFramesFailAlone/cuda", 2),
}
SIMULATED = "/^simulated$|/./^simulated$"
NOT_SIMULATED = f"-test.skip={SIMULATED}"
# What takes minutes under the sanitizer comes first: Go tries no more alternatives after one
# that may match a subtest.
NOT_HUGE = f"-test.skip=Beyond(32Bits|4GiB)$|HugeInputsEncode$|{SIMULATED}"

PACKAGES = re.compile("")  # set by --packages

RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP)", re.MULTILINE)
PLACE = re.compile(r"^ +(\w+\.go:\d+): ?(.*)$")
CRASH = re.compile(r"^panic:|^fatal error|^SIG[A-Z]+:|exit code|not run:|^Error: ")
LOG_BYTES = 15 << 20
SHOWN_LINES = 40  # of failures per step


@dataclasses.dataclass
class Run:
    """The result of one package's tests."""

    step: str
    package: str
    code: int
    seconds: float
    text: str
    notes: str = ""

    def counts(self) -> dict[str, int]:
        found = RESULT.findall(self.text)
        # A crashed binary prints no FAIL.
        failed = found.count("FAIL") or int(self.code != 0)
        return {"passed": found.count("PASS"), "failed": failed, "skipped": found.count("SKIP")}

    def telling(self) -> list[str]:
        """One line per failure: the test, the source line and the message, without
        stacks."""
        found: list[str] = []
        failed = set(re.findall(r"^ *--- FAIL: (\S+)", self.text, re.MULTILINE))
        lines = self.text.splitlines()
        test = ""
        for i, line in enumerate(lines):
            if line.startswith(("=== RUN ", "=== NAME ", "=== CONT ")):
                test = line.split()[-1]
            elif CRASH.search(line):
                found.append(f"{test}: {line}")
            elif (place := PLACE.match(line)) and test in failed:
                message = place[2] or wrong(lines[i + 1 : i + 12])
                found.append(f"{test}  {place[1]}  {message}")
        unsaid = [f"{name}  says nothing" for name in sorted(failed) if not any(name in line for line in found)]
        # The first of several equal messages represents all.
        alike: dict[str, list[str]] = {}
        for line in found + unsaid:
            alike.setdefault(line.partition("  ")[2] or line, []).append(line)
        return [f"{same[0][:200]}{f' (and {len(same) - 1} more)' * (len(same) > 1)}" for same in alike.values()]


def wrong(lines: list[str]) -> str:
    """The paragraph Error of a testify failure, on one line."""
    said: list[str] = []
    for line in lines:
        head, _, rest = line.strip().partition(":")
        if head == "Error":
            said = [rest.strip()]
        elif said and head in ("Test", "Messages", "Diff"):
            break
        elif said:
            said.append(line.strip())
    return " ".join(" ".join(said).split())


def execute(step: str, package: str, command: list[str], deadline: float, log: Path) -> Run:
    """Runs one binary in its package's folder, as go test does, and kills it and its
    children at its time limit. Its output goes to a file: a pipe would block until all
    children close it."""
    limit = min(PACKAGE_SECONDS, deadline - time.monotonic())
    if limit < 5:
        return Run(step, package, 1, 0, f"not run: the step's limit of {STEP_SECONDS} s is used up")
    environment = {"QUIVER_TEST_DEVICE": "cuda", "QUIVER_LIBNCCL": gobench.nccl(), "NCCL_NVLS_ENABLE": "0"} | os.environ
    # Go prints the stacks of all goroutines at its own limit.
    command = [*command, "-test.v", f"-test.timeout={limit - 4:.0f}s"]
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT / package, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = 124
        try:
            os.killpg(process.pid, signal.SIGKILL)  # and its children
        except ProcessLookupError:
            pass
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass  # stuck in the driver
    text = log.read_text(errors="replace")
    if code:
        text += f"\nexit code {code}" + (f": the limit of {limit:.0f} s" if code == 124 else "") + "\n"
    return Run(step, package, code, time.monotonic() - start, text)


def binaries(folder: str) -> list[tuple[str, Path]]:
    """The packages and their binaries; bundle.sh writes / as +."""
    found = [(path.name.replace("+", "/"), path) for path in sorted((GPU / folder).glob("*"))]
    return [(package, path) for package, path in found if PACKAGES.search(package)]


def run_all(step: str, work: list[tuple[str, list[str]]], jobs: int) -> list[Run]:
    """Runs the packages that need the GPU alone one after the other, then the others
    concurrently."""
    if not work:
        return [Run(step, ".", 1, 0, "the bundle has no such packages: exit code 1")]
    deadline = time.monotonic() + STEP_SECONDS
    logs = GPU / "logs"
    logs.mkdir(exist_ok=True)

    def one(item: tuple[str, list[str]]) -> Run:
        package, command = item
        return execute(step, package, command, deadline, logs / f"{step}-{package.replace('/', '+')}")

    alone = [item for item in work if ALONE.match(item[0])]
    rest = [item for item in work if not ALONE.match(item[0])]
    runs = [one(item) for item in alone]
    with ThreadPoolExecutor(jobs) as pool:
        return runs + list(pool.map(one, rest))


def run_tests(step: str, folder: str) -> list[Run]:
    return run_all(step, [(package, [str(path)]) for package, path in binaries(folder)], JOBS)


def run_tests_two() -> list[Run]:
    """Runs the tests that bundle.sh listed as lines of a package and a name."""
    tests: dict[str, list[str]] = {}
    for line in (GPU / "two-gpus").read_text().splitlines():
        package, name = line.split()
        tests.setdefault(package, []).append(name)
    work = [(package, [str(path), f"-test.run=^({'|'.join(tests[package])})$", NOT_SIMULATED])
            for package, path in binaries("tests") if package in tests]  # fmt: skip
    return run_all("tests-two", work, 1)


def run_sanitizer() -> list[Run]:
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        return [Run("sanitizer", ".", 1, 0, "compute-sanitizer is not on this machine: exit code 1")]
    work = [(package, [tool, *SANITIZER, str(path), NOT_HUGE] + ["-test.short"] * package.startswith("compress/")) for package, path in binaries("tests") if SANITIZED.match(package)]
    runs = run_all("sanitizer", work, 1)
    for run in runs:
        summaries = re.findall(r"=+ ((?:ERROR|LEAK) SUMMARY: .*)", run.text)
        errors = re.findall(r"=+ ((?:Invalid|Misaligned|Program hit|Leaked|Uninitialized|Error:|Device not supported).*)", run.text)
        run.notes = "; ".join(summaries) or "no summary of the sanitizer"
        bad = any(not s.startswith("ERROR SUMMARY: 0 ") for s in summaries if s.startswith("ERROR")) or not summaries
        if bad:
            run.code = run.code or 86
            run.text += "\n".join(["", *(f"Error: {e}" for e in list(dict.fromkeys(errors))[:10]), run.notes, "exit code 86"])
    return runs


def run_mutations() -> list[Run]:
    """Decodes changed inputs of each format on the GPU, as many on the host, and compares."""
    work = []
    for package, path in binaries("tests"):
        if package in MUTATIONS:
            test, times = MUTATIONS[package]
            work.append((package, ["env", f"QUIVER_MUTATED_INPUTS={-(-MUTATED_INPUTS // times)}", str(path), f"-test.run=^{test}$"]))
    runs = run_all("mutations", work, JOBS)
    for run in runs:
        run.notes = f"{MUTATED_INPUTS:,} changed inputs"
    return runs


def run_kills() -> list[Run]:
    """Runs processes that share columns and kills them at random times."""
    work = [(package, ["env", f"QUIVER_KILL_ROUNDS={KILL_ROUNDS}", str(path), "-test.run=^TestRandomKills$/^cuda$"])
            for package, path in binaries("tests") if package == "ipc"]  # fmt: skip
    runs = run_all("kills", work, 1)
    for run in runs:
        run.notes = f"{KILL_ROUNDS} rounds"
    return runs


def run_interop() -> list[Run]:
    """Runs the checks of interop/ that share GPU memory: with Python, and with nanoarrow
    if the bundle has it."""
    checks = {"clients/python": [str(ROOT / "interop/share.py"), "--command", str(GPU / "quiver-share"), "--device", "cuda"]}
    if (GPU / "interop").exists():
        checks["arrowbuf/cdevice"] = [str(ROOT / "interop/cdevice_cuda.py"), "--libraries", str(GPU / "interop")]
    return [run_check(package, command) for package, command in checks.items()]


def run_check(package: str, command: list[str]) -> Run:
    start = time.monotonic()
    try:
        ended = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PACKAGE_SECONDS, check=False)
        code, text = ended.returncode, ended.stdout
    except subprocess.TimeoutExpired as e:
        code, text = 124, f"{(e.stdout or b'').decode(errors='replace')}\nnot run: the limit of {PACKAGE_SECONDS} s"
    # Converts the output to the form of go test.
    for theirs, ours in (("ok", "PASS"), ("FAIL", "FAIL"), ("skip", "SKIP")):
        text = re.sub(rf"^{theirs} +(?=\w)", f"--- {ours}: ", text, flags=re.MULTILINE)
    text = re.sub(r"^(--- FAIL: .*)", r"\1\nError: \1", text, flags=re.MULTILINE)
    return Run("interop", package, code, time.monotonic() - start, text)


STEPS = {
    "tests": lambda: run_tests("tests", "tests"),
    "tests-gorgonia": lambda: run_tests("tests-gorgonia", "gorgonia"),
    "tests-two": run_tests_two,
    "interop": run_interop,
    "sanitizer": run_sanitizer,
    "mutations": run_mutations,
    "kills": run_kills,
}


PASSED = re.compile(r"\s*(=== (RUN|NAME|CONT|PAUSE)|--- (PASS|SKIP))\b")


def write_log(path: Path, runs: list[Run]) -> None:
    """Appends all output to the log. If a package has too much, lines about passed tests
    are dropped, then the middle."""
    room = LOG_BYTES // max(1, len(runs))
    with path.open("a") as log:
        for run in runs:
            text = run.text
            if len(text) > room:
                text = "\n".join(line for line in text.splitlines() if not PASSED.match(line))
            if len(text) > room:
                text = f"{text[: room // 2]}\n... {len(text) - room} characters left out ...\n{text[-room // 2 :]}"
            log.write(f"=== {run.step}: package {run.package}, exit code {run.code}, {run.seconds:.1f} s\n{text}\n")


def show(runs: list[Run]) -> None:
    """Prints failures first, then one line per package."""
    failed = [run for run in runs if run.code]
    for run in failed:
        print(f"\n---- {run.step}: {run.package}")
        lines, shown = run.telling(), max(4, SHOWN_LINES // len(failed))
        print("\n".join(lines[:shown] + [f"... {len(lines) - shown} more"] * (len(lines) > shown)))
    for run in runs:
        counts = run.counts()
        print(f"{'FAIL' if run.code else 'ok':4}  {run.step:14}  {run.package:28} {run.seconds:6.1f} s  "
              f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped  {run.notes}")  # fmt: skip


def main() -> int:
    global PACKAGES
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", nargs="+", choices=STEPS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", type=re.compile, default=PACKAGES, metavar="REGEX")
    options = parser.parse_args()
    PACKAGES = options.packages
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tests.log").unlink(missing_ok=True)

    summary: dict[str, dict] = {}
    total = {"passed": 0, "failed": 0, "skipped": 0}
    failed = False
    for step in options.steps:
        start = time.monotonic()
        runs = STEPS[step]()
        write_log(options.out / ("sanitizer.log" if step == "sanitizer" else "tests.log"), runs)
        show(runs)
        counts = {key: sum(run.counts()[key] for run in runs) for key in total}
        failed = failed or any(run.code for run in runs)
        packages = {run.package: run.counts() | {"code": run.code, "seconds": round(run.seconds, 1), "notes": run.notes} for run in runs}
        summary[step] = counts | {"seconds": round(time.monotonic() - start, 1), "packages": packages}
        if step != "sanitizer":
            total = {key: total[key] + counts[key] for key in total}
        print(f"==== {step}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped, {summary[step]['seconds']} s", flush=True)
    machine = record.machine({"python": sys.version.split()[0]}, commit=gobench.commit())
    some = f"PACKAGES='{PACKAGES.pattern}' " if PACKAGES.pattern else ""
    command = f"{some}.gpu/run.sh {' '.join(options.steps)}"
    record.write(options.out, "sometests" if some else "tests", machine, [], tests=total, command=command, steps=summary)
    if not some:  # benchmarks copy these counts into their results
        (GPU / "tests.json").write_text(json.dumps(total) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
