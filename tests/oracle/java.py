"""The jars of the two reference brokers and how to run a class of theirs.

Apache Kafka 3.9.1 in ZooKeeper mode is the reference in general, 4.3.0 in KRaft mode for what only newer clients use.
Maven copies the jars once to `.cache/oracle/<hash of the pom>` of this repository; a file lock keeps two test runs apart.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "oracle"
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xms64m", "-Xmx512m")
"""For correctness runs: starts fast and stays small. Measurements bring their own options."""


@dataclass(frozen=True)
class Release:
    """An Apache Kafka: the pom that names its jars, and what its logging library is told."""

    version: str
    pom: Path
    log_option: str
    """The system property that names the file of log settings."""
    server_log: Path
    tools_log: Path


ZOOKEEPER_MODE = Release(
    "3.9.1",
    HERE / "pom.xml",
    "log4j.configuration",
    HERE / "server-log4j.properties",
    HERE / "tools-log4j.properties",
)
KRAFT_MODE = Release(
    "4.3.0",
    HERE / "pom-4.3.xml",
    "log4j2.configurationFile",
    HERE / "server-log4j2.properties",
    HERE / "tools-log4j2.properties",
)


def missing() -> str | None:
    """Why Apache Kafka cannot be started here, or None."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def required() -> bool:
    """On a build server a missing oracle is a failure, not a skip."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


@functools.cache
def jars(release: Release = ZOOKEEPER_MODE) -> Path:
    """The folder with every jar. Raises RuntimeError with Maven's words when they cannot be fetched."""
    pom = release.pom
    folder = CACHE / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if run.returncode != 0:
                raise RuntimeError(f"Maven could not fetch Apache Kafka:\n{run.stdout[-4000:]}{run.stderr[-2000:]}")
            (folder / "complete").touch()
    return folder


@functools.cache
def compiled(source: Path, release: Release) -> Path:
    """The folder with the compiled classes of a source file. Raises RuntimeError with the compiler's words."""
    class_path = f"{jars(release)}/*"
    folder = CACHE / f"classes-{hashlib.sha256(release.pom.read_bytes() + source.read_bytes()).hexdigest()[:12]}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = ["javac", "-nowarn", "-cp", class_path, "-d", str(folder), str(source)]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if run.returncode != 0:
                raise RuntimeError(f"{source.name} was not compiled:\n{run.stdout[-4000:]}{run.stderr[-2000:]}")
            (folder / "complete").touch()
    return folder


@functools.cache
def scratch() -> Path:
    """Where a JVM unpacks its native libraries and keeps what it does not need for long: of one that was killed it stays.
    Gone at the end of this process."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def scratch_option() -> str:
    return f"-Djava.io.tmpdir={scratch()}"


def spark_environment() -> dict[str, str]:
    """The environment of a process that starts a Spark of its own."""
    folder = str(scratch())
    options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {scratch_option()}"  # starts fast, as QUICK_START does
    own = {"TMPDIR": folder, "SPARK_LOCAL_DIRS": folder, "SPARK_SUBMIT_OPTS": options}
    return {**os.environ, **own}


def command(
    main_class: str,
    arguments: Sequence[str],
    *,
    log_settings: Path | None = None,
    options: Sequence[str] = QUICK_START,
    release: Release = ZOOKEEPER_MODE,
    plugin: Path | None = None,
) -> list[str]:
    """The command line that runs `main_class`; its log goes where `log_settings` says, else to stderr. `plugin` is the source
    of classes that it loads besides."""
    settings = log_settings or release.tools_log
    options = [*options, scratch_option(), f"-D{release.log_option}=file:{settings}"]
    classes = f"{jars(release)}/*" + (f":{compiled(plugin, release)}" if plugin is not None else "")
    return ["java", *options, "-cp", classes, main_class, *arguments]
