"""The Python source on other versions of PySpark than the lock file's, which is the oldest one: each kind of read and write on
every version, and all tests of the source with `-m long`.

Such a PySpark is installed once, without what it needs, into a folder in `.cache` of this repository, which comes first on the
path.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas import EmbeddedBroker
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import Given, need_spark, produce
from tests.oracle import java

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(3600)]

OTHERS = ("4.2.0", "4.3.0")
CACHE = java.CACHE.parent
TIMES_MS = (1_699_164_000_000, 1_699_167_600_000)  # the hour that comes twice in New York


def pyspark(version: str) -> Path:
    """A folder with this version."""
    need_spark()
    folder = CACHE / f"pyspark-{version}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--upgrade", "--target", str(folder), f"pyspark=={version}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode != 0:
                (pytest.fail if java.required() else pytest.skip)(f"no PySpark {version}: {done.stderr}")
            (folder / "complete").touch()
    return folder


def environment(version: str, *more: Path) -> dict[str, str]:
    """Of a process with this version, in which no environment is activated."""
    inherited = {name: value for name, value in java.spark_environment().items() if name != "PYSPARK_PYTHON"}
    path = os.pathsep.join(str(each) for each in (pyspark(version), *more))
    return {**inherited, "PATH": os.defpath, "PYTHONPATH": path}


@pytest.mark.parametrize("version", OTHERS)
def test_each_kind_of_read_and_write_on_other_versions(version: str, tmp_path: Path) -> None:
    """From a program in an environment that is not activated, on a machine in New York."""
    data = tmp_path / "data"
    topics = {"full": 2, "empty": 2, "copied": 2}
    with EmbeddedBroker(topics, {"log.retention.ms": -1, "log.dirs": data}) as broker:
        records = [Given(str(n), timestamp_ms=TIMES_MS[n // 2 % 2], partition=n % 2) for n in range(10)]
        produce(broker.bootstrap_servers, "full", records)
        done = subprocess.run(
            [sys.executable, REPOSITORY / "tests/interop/spark/kinds.py", broker.bootstrap_servers, data, tmp_path],
            cwd=tmp_path, env=environment(version, REPOSITORY) | {"TZ": "America/New_York"},
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    full = sorted([each.partition, n // 2, str(n), each.timestamp_ms] for n, each in enumerate(records))
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "version": version,
        "brokers": full,
        "files": full,
        "nothing of brokers": [],
        "nothing of files": [],
        "copied": full,
        "written": 11,
    }


@pytest.mark.long
@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize("name", ["test_source.py", "test_contents.py", "test_exactly_once.py"])
def test_the_source_on_other_versions(version: str, name: str) -> None:
    options = ["-o", "addopts=--strict-markers --strict-config --import-mode=importlib", "--timeout", "900"]
    if name == "test_exactly_once.py":
        options += ["-k", "broker_are_killed"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/interop/spark/{name}", "--quiet", "-p", "no:cacheprovider", *options],
        cwd=REPOSITORY,
        # What is missing is a failure; Spark's connector is not published for every version.
        env={**environment(version), "PATH": os.environ["PATH"], "CI": "true", "SPARK_CONNECTOR": "no"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
