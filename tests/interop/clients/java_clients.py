"""Java programs of the tests, with the clients of a chosen Apache Kafka: their jars, their compiled classes, their process.

What is fetched and compiled stays in `.cache/oracle`; a file lock keeps two test runs apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.oracle import java
from tests.oracle.process import watch_over

FOLDER = Path(__file__).parent / "java"
ANSWER_TIMEOUT_S = 150.0
WITH_SHARE_CONSUMERS = ("4.3.0",)
"""The versions for which `java/newer` is compiled, too."""
_POM = FOLDER / "pom.xml"


def class_path(version: str) -> str:
    """The jars of Kafka Streams and the clients of that Apache Kafka, and the compiled programs of this folder."""
    sources = sorted(FOLDER.glob("*.java"))
    if version in WITH_SHARE_CONSUMERS:
        sources += sorted(FOLDER.glob("newer/*.java"))
    content = hashlib.sha256(b"".join(path.read_bytes() for path in (_POM, *sources))).hexdigest()[:12]
    jars = java.CACHE / f"clients-{version}-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    classes = java.CACHE / f"clients-{version}-classes-{content}"
    java.CACHE.mkdir(parents=True, exist_ok=True)
    with (java.CACHE / "clients-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (jars / "complete").exists():
            fetch = ["mvn", "--quiet", "--batch-mode", "--file", str(_POM), f"-Dkafka.version={version}"]
            fetch += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
            _make(fetch)
            (jars / "complete").touch()
        if not (classes / "complete").exists():
            _make(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)])
            (classes / "complete").touch()
    return f"{jars}/*:{classes}"


def _make(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {run.returncode}:\n{run.stdout[-4000:]}{run.stderr[-2000:]}")


def command(
    version: str,
    main_class: str,
    arguments: Sequence[str] = (),
    log_level: str = "error",
    options: Sequence[str] = java.QUICK_START,
) -> list[str]:
    """The command line of one of the programs. Its log goes to standard error."""
    options = [*options, java.scratch_option(), f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"]
    return ["java", *options, "-cp", class_path(version), main_class, *arguments]


class JavaError(Exception):
    """What a Java client threw; `kind` is the simple name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class JavaClients:
    """A JVM that runs a program of `CommandLoop.java`: any number of clients of one Apache Kafka's. `process_id` is its own."""

    def __init__(self, version: str, log: Path, program: str = "TransactionalClients") -> None:
        self._version = version
        self._log = log
        self._program = program
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command(self._version, self._program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        self._watch = watch_over(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._watch.kill()
        self._watch.communicate()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ask(self, client: str, do: str, **rest: Any) -> Any:
        """The value that a command of `client` answers. Raises JavaError for what it throws."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        line = json.dumps({"id": number, "client": client, "do": do, **rest})
        assert self._process.stdin is not None
        with self._lock:
            self._pending[number] = future
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        return future.result(ANSWER_TIMEOUT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._pending.pop(answer["id"])
            if "error" in answer:
                future.set_exception(JavaError(answer["error"], answer["message"]))
            else:
                future.set_result(answer["value"])
        with self._lock:
            for future in self._pending.values():
                future.set_exception(EOFError(f"the JVM ended; see {self._log}"))
            self._pending.clear()
