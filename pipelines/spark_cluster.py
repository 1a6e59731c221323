"""A standalone Spark cluster on this machine, a master and two workers: `make spark-cluster`.

They run from the jars of the pyspark package. The address of the master is the first line that is printed; Ctrl-C, SIGTERM or
the end of the terminal ends the cluster, and so does the end of one of its processes. Logs and the folders of executors are in
the folder that `--folder` names, or in a temporary one that is removed with the cluster.

Rules: loopback only. Ready means that the master lists both workers, and that the process which was started here is the one
that listens at its address: where another master has the port, nothing starts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

from barnabas.listening import PortTakenError, free_port, require_free, wait_until_listening

HOST = "127.0.0.1"
WORKERS = 2
PORT = 7077
UI_PORT = 8080
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.2


class SparkClusterError(RuntimeError):
    """The cluster cannot start, or has lost a process; the text says which, and where its log is."""


@dataclass
class SparkCluster:
    """The processes. Port 0 is a free one, found at the start."""

    folder: Path
    port: int = PORT
    ui_port: int = UI_PORT
    cores: int = 1
    memory: str = "1g"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def ui(self) -> str:
        return f"http://{HOST}:{self.ui_port}/"

    def start(self) -> None:
        """Start the processes; return when the master lists all workers. Raises SparkClusterError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.ui_port = self.port or free_port(), self.ui_port or free_port()
        try:
            require_free((self.port, self.ui_port))
        except PortTakenError as error:
            raise SparkClusterError(f"{error}; --port and --ui-port take others, 0 a free one") from None
        self._run("master", "master.Master", "--port", str(self.port), "--webui-port", str(self.ui_port))
        for port in (self.port, self.ui_port):
            if not wait_until_listening(self.processes["master"], port, START_TIMEOUT_S):
                raise SparkClusterError(f"the master does not listen on port {port}; {self._end_of_log('master')}")
        self._wait(0)
        for number in range(1, WORKERS + 1):
            self._run(
                f"worker{number}", "worker.Worker", "--webui-port", "0", "--cores", str(self.cores),
                "--memory", self.memory, "--work-dir", str(self.folder / f"worker{number}"), self.master,
            )  # fmt: skip
        self._wait(WORKERS)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def ended(self) -> str | None:
        """The name of a process that has ended."""
        return next((name for name, process in self.processes.items() if process.poll() is not None), None)

    def stop(self) -> None:
        """End the workers, which end their executors, and then the master."""
        while self.processes:
            process = self.processes.popitem()[1]
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _run(self, name: str, main_class: str, *arguments: str) -> None:
        home = spark_home()
        line = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}", "--host", HOST, *arguments]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
        # Where a port is taken, Spark would move to the next one, and its workers would join the master that has it.
        options = f"-Dspark.port.maxRetries=0 {os.environ.get('SPARK_MASTER_OPTS', '')}"
        environment["SPARK_MASTER_OPTS"] = options.strip()
        with self.log(name).open("wb") as output:
            self.processes[name] = subprocess.Popen(  # noqa: S603  a program of Spark's, no shell
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, env=environment,
                start_new_session=True,  # Ctrl-C is handled by this process, which stops them in order
            )  # fmt: skip

    def _wait(self, workers: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S  # noqa: TID251  a command of its own, not the broker
        while (found := self._alive_workers()) is None or found < workers:
            name = self.ended()
            if name is not None:
                raise SparkClusterError(f"{name} ended while it started; {self._end_of_log(name)}")
            if time.monotonic() > deadline:  # noqa: TID251
                raise SparkClusterError(
                    f"the master lists {found or 0} workers after {START_TIMEOUT_S:g} s, see {self.folder}"
                )
            time.sleep(POLL_S)

    def _alive_workers(self) -> int | None:
        """What the master says; None while it does not answer, or has its port and not yet this page."""
        try:
            with urllib.request.urlopen(f"{self.ui}json/", timeout=5) as page:  # noqa: S310  http, to this machine
                return int(json.load(page)["aliveworkers"])
        except (OSError, ValueError):
            return None

    def _end_of_log(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return f"its log {self.log(name)} ends with:\n" + "\n".join(lines[-5:])


def spark_home() -> Path:
    """The folder of the pyspark package. Raises SparkClusterError."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkClusterError('PySpark is missing: in a clone, pip install ".[spark]"')
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SparkClusterError("Java is missing: install a runtime of Java 17 or later, or set JAVA_HOME")
    return Path(found.origin).parent


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.spark_cluster", description="Start a Spark master and two workers on this machine."
    )
    parser.add_argument("--port", type=int, default=PORT, help="of the master; 0 is a free one (default %(default)s)")
    parser.add_argument("--ui-port", type=int, default=UI_PORT, help="of its page (default %(default)s)")
    parser.add_argument("--cores", type=int, default=1, help="of each worker (default %(default)s)")
    parser.add_argument("--memory", default="1g", help="of each worker (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="for logs and executors (default: a temporary one)")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="barnabas-spark-cluster-"))
    cluster = SparkCluster(folder.resolve(), options.port, options.ui_port, options.cores, options.memory)
    try:
        cluster.start()
        print(cluster.master)
        print(
            f"A master and {WORKERS} workers of {cluster.cores} core(s) and {cluster.memory} each run; {cluster.ui} shows them."
        )
        print("Run a job on them; Ctrl-C stops them:\n")
        print(
            f"  SPARK_MASTER={cluster.master} PYSPARK_PYTHON={sys.executable} {sys.executable} -m barnabas pipeline NAME ...",
            flush=True,
        )
        while (name := cluster.ended()) is None:
            time.sleep(POLL_S)
        sys.exit(f"spark-cluster: {name} ended; see {cluster.log(name)}")
    except SparkClusterError as error:
        sys.exit(f"spark-cluster: {error}")
    except KeyboardInterrupt:
        sys.exit(0)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        cluster.stop()
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
