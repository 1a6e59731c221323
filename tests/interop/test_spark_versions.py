"""The tests of the Python source on the newest PySpark that is supported, in a virtual environment of its own.

The lock file has the oldest one. The environment is made once, in `.cache` of this repository.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.pipeline_cases import need_spark
from tests.interop.spark_feed import REPOSITORY
from tests.oracle import java

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

NEWEST = "4.2.0"
CACHE = java.CACHE.parent


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, timeout=900)


def make_environment(folder: Path) -> None:
    """What the lock file of the tests has, this PySpark, and Arrow and numpy in the versions that these tests run with."""
    run(sys.executable, "-m", "venv", "--clear", folder)
    install = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, "--require-hashes", "-r", REPOSITORY / "requirements" / "dev.txt")
    same = (f"{name}=={importlib.metadata.version(name)}" for name in ("numpy", "pyarrow"))
    run(*install, f"pyspark=={NEWEST}", *same)


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with the newest PySpark."""
    need_spark()
    folder = CACHE / f"spark-{NEWEST}-python{sys.version_info.major}.{sys.version_info.minor}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            try:
                make_environment(folder)
            except subprocess.CalledProcessError as error:
                (pytest.fail if java.required() else pytest.skip)(
                    f"no environment with PySpark {NEWEST}: {error.stderr}"
                )
            (folder / "complete").touch()
    return folder / "bin" / "python"


@pytest.mark.parametrize("name", ["test_spark_source.py", "test_spark_contents.py", "test_spark_exactly_once.py"])
def test_the_source_on_the_newest_pyspark(python: Path, name: str) -> None:
    options = ["-o", "addopts=--strict-markers --strict-config --import-mode=importlib", "--timeout", "900"]
    if name == "test_spark_exactly_once.py":
        options += ["-m", "not long"]
    found = subprocess.run(
        [str(python), "-m", "pytest", f"tests/interop/{name}", "--quiet", "-p", "no:cacheprovider", *options],
        cwd=REPOSITORY,
        env={**os.environ, "CI": "true"},  # what is missing is a failure
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
