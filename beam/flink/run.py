"""Runs arrow2zarr-beam on a standalone Flink cluster on this machine, and kills one of
its TaskManagers while partitions are written. The output must verify all the same, and
must be what arrow2zarr convert writes.

Usage: run.py [--partitions N], run by `make beam-flink`. It needs Java 11 or newer and
Maven; Flink and Beam's job server come from PyPI and Maven Central, into .tools/flink,
the first time. It records the result in bench/results.
"""

import argparse
import contextlib
import filecmp
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))
import gen  # noqa: E402
import record  # noqa: E402

FLINK = "apache-flink-libraries==1.16.3"
TOOLS = ROOT / ".tools" / "flink"
# Flink uses what newer versions of Java hide.
OPENS = ["--add-exports=java.base/sun.net.util=ALL-UNNAMED"] + [
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time")
]
# A TaskManager more than the job uses: a job does not restart without a free slot.
TASK_MANAGERS, PARALLELISM = 3, 2
LIMIT = 600  # seconds, of the job


def install() -> tuple[str, Path]:
    """Returns the class path of Flink, and the folder of the job server's jars."""
    done = TOOLS / ".installed"
    if not done.exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        print("installing Flink and Beam's job server", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", TOOLS, FLINK], check=True)
        (archive,) = TOOLS.glob("apache-flink-libraries-*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(TOOLS / "unpacked", filter="data")
        archive.unlink()
        subprocess.run(
            ["mvn", "-q", "-B", "-f", Path(__file__).with_name("pom.xml"), "dependency:copy-dependencies",
             f"-DoutputDirectory={TOOLS / 'jobserver'}", "-DincludeScope=runtime"],
            check=True,
        )
        done.touch()
    (flink,) = (TOOLS / "unpacked").glob("apache-flink-libraries-*")
    jars = [*flink.glob("deps/lib/*.jar"), flink / "deps/bin/bash-java-utils.jar"]
    return ":".join(map(str, jars)), TOOLS / "jobserver"


def free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


class Cluster:
    """A JobManager, TaskManagers and a job server, each a JVM."""

    def __init__(self, folder: Path):
        self.folder, self.processes = folder, []
        self.classpath, self.jobserver = install()
        self.rpc, self.rest, self.job, self.artifacts, self.expansion = free_ports(5)
        self.conf = folder / "conf"
        self.conf.mkdir()
        (self.conf / "flink-conf.yaml").write_text(
            f"""jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: {self.rpc}
jobmanager.memory.process.size: 1200m
taskmanager.memory.process.size: 1400m
taskmanager.numberOfTaskSlots: 1
taskmanager.host: 127.0.0.1
rest.address: 127.0.0.1
rest.port: {self.rest}
classloader.resolve-order: parent-first
heartbeat.interval: 1000
heartbeat.timeout: 10000
restart-strategy: fixed-delay
restart-strategy.fixed-delay.attempts: 3
restart-strategy.fixed-delay.delay: 1 s
"""
        )

    def start(self) -> None:
        self.java("jobmanager", "-Xmx700m", *OPENS, "-cp", self.classpath,
                  "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", self.conf)
        found = subprocess.run(
            ["java", "-cp", self.classpath, "org.apache.flink.runtime.util.bash.BashJavaUtils", "GET_TM_RESOURCE_PARAMS", "--configDir", self.conf],
            env=self.environment(), capture_output=True, text=True, check=True,
        ).stdout
        prefix = "BASH_JAVA_UTILS_EXEC_RESULT:"
        memory, arguments = (line.removeprefix(prefix).split() for line in found.splitlines() if line.startswith(prefix))
        self.task_managers = [
            self.java(f"taskmanager{i}", *memory, *OPENS, "-cp", self.classpath,
                      "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", self.conf, *arguments)
            for i in range(TASK_MANAGERS)
        ]
        self.java("jobserver", "-Xmx1g", *OPENS, "-cp", f"{self.jobserver}/*", "org.apache.beam.runners.flink.FlinkJobServerDriver",
                  "--job-host=127.0.0.1", f"--job-port={self.job}", f"--artifact-port={self.artifacts}", f"--expansion-port={self.expansion}",
                  f"--flink-master=127.0.0.1:{self.rest}", f"--flink-conf-dir={self.conf}", f"--artifacts-dir={self.folder / 'artifacts'}")
        self.wait(lambda: self.overview()["taskmanagers"] == TASK_MANAGERS, "the TaskManagers")
        self.wait(lambda: socket.create_connection(("127.0.0.1", self.job), 1).close() is None, "the job server")

    def environment(self) -> dict[str, str]:
        return os.environ | {"FLINK_CONF_DIR": str(self.conf)}

    def java(self, name: str, *arguments) -> subprocess.Popen:
        with open(self.folder / f"{name}.log", "wb") as log:
            # A session of its own: the workers that a killed TaskManager leaves are in it.
            process = subprocess.Popen(["java", *map(str, arguments)], env=self.environment(), cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def overview(self) -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/overview", timeout=5) as response:
            return json.load(response)

    def wait(self, ready, what: str) -> None:
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            with contextlib.suppress(OSError, ValueError, KeyError):
                if ready():
                    return
            time.sleep(0.5)
        sys.exit(f"run.py: {what} did not start: see {self.folder}")

    def busy(self) -> list[subprocess.Popen]:
        """Returns the TaskManagers that have started workers."""
        parents = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # a process that has ended
                parents.add(int(stat.read_text().rpartition(")")[2].split()[1]))
        return [p for p in self.task_managers if p.pid in parents]

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def build(folder: Path) -> tuple[Path, Path]:
    """Builds the command, and the program that starts workers."""
    go = os.environ.get("GO", "go")
    module = ROOT / "beam"
    environment = os.environ | {"CGO_ENABLED": "0"}
    command, boot = folder / "arrow2zarr-beam", folder / "boot"
    subprocess.run([go, "build", "-o", command, "./cmd/arrow2zarr-beam"], cwd=module, env=environment, check=True)
    subprocess.run([go, "build", "-o", boot, "github.com/apache/beam/sdks/v2/go/container"], cwd=module, env=environment, check=True)
    return command, boot


def status(output: Path) -> dict:
    found = subprocess.run([ROOT / "bin/arrow2zarr", "status", output, "--json"], capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else {"state": "missing"}


def differences(left: Path, right: Path) -> list[str]:
    """Returns the files that differ or that only one folder has."""
    names = {p.relative_to(folder) for folder in (left, right) for p in folder.rglob("*") if p.is_file()}
    _, different, missing = filecmp.cmpfiles(left, right, names, shallow=False)
    return sorted(map(str, different + missing))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=32)
    partitions = parser.parse_args().partitions
    folder = Path(tempfile.mkdtemp(prefix="quiver-flink-"))
    cluster = Cluster(folder)
    try:
        command, boot = build(folder)
        gen.BATCHES = 4
        print("writing the input", flush=True)
        gen.main(folder)
        source, output, alone = folder / "stations.parquet", folder / "flink.zarr", folder / "alone.zarr"
        options = ["--chunk-rows", "65536"]
        subprocess.run([ROOT / "bin/arrow2zarr", "convert", source, alone, *options, "--quiet"], check=True)
        cluster.start()
        start = time.monotonic()
        job = subprocess.Popen(
            [command, "--runner=universal", f"--endpoint=127.0.0.1:{cluster.job}", f"--worker_binary={command}", "--environment_type=PROCESS",
             f"--environment_config={json.dumps({'command': str(boot)})}", f"--parallelism={PARALLELISM}", "--partitions", str(partitions),
             "--jobs", "1", *options, source, output],
            cwd=folder, stdout=open(folder / "job.log", "wb"), stderr=subprocess.STDOUT,
        )
        killed_at, done = None, 0
        while job.poll() is None:
            if time.monotonic() - start > LIMIT:
                job.kill()
                sys.exit(f"run.py: the job takes more than {LIMIT} s: see {folder}")
            if killed_at is None and (now := status(output)).get("state") == "partitions":
                done = partitions - len(now.get("missing", []))
                busy = cluster.busy()
                if 0 < done < partitions and busy:
                    busy[0].kill()
                    killed_at = time.monotonic() - start
                    print(f"killed a TaskManager after {killed_at:.1f} s, with {done} of {partitions} partitions done", flush=True)
            time.sleep(0.05)
        seconds = time.monotonic() - start
        if job.returncode != 0:
            sys.exit(f"run.py: the job failed: see {folder}")
        if killed_at is None:
            sys.exit(f"run.py: the job ended before a TaskManager could be killed: see {folder}")
        subprocess.run([ROOT / "bin/arrow2zarr", "verify", source, output], check=True)
        if wrong := differences(alone, output):
            sys.exit(f"run.py: {len(wrong)} files differ from those of arrow2zarr convert, such as {wrong[0]}: see {folder}")
    finally:
        cluster.stop()
    records = [
        {"name": "flink-taskmanager-killed", "unit": "s", "value": round(seconds, 1), "command": "make beam-flink",
         "note": f"Flink 1.16.3, {TASK_MANAGERS} TaskManagers; {partitions} partitions, {done} done when one was killed after {killed_at:.1f} s; "
                 "the output verifies, and its files are those of arrow2zarr convert"},
    ]
    machine = record.machine({"flink": FLINK.partition("==")[2], "beam": "2.77.0"}, name=f"{len(os.sched_getaffinity(0))}-core")
    print(record.write(ROOT / "bench/results", "flink", machine, records))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
