"""The brokers that real clients use in these tests: ours, and Apache Kafka 3.9.1, which shows that a test is right.

A test whose parameter is the reference is marked `long`: what it shows does not change with this repository, so it
belongs to `make interop-long`.
INTEROP_BROKERS=barnabas leaves the reference out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka

SETTINGS = {"log.retention.ms": "-1"}
"""Some records of the tours are years old, and no tour is about what becomes of such."""
REFERENCES = {"kafka", "kafka-cluster"}
GO_PROGRAM = Path(__file__).resolve().parent / "clients" / "go"
BROKERS = os.environ.get("INTEROP_BROKERS", "barnabas,kafka").split(",")


def pytest_configure(config: pytest.Config) -> None:
    """The clients' own warnings, and sockets that they forget, are not ours to fix."""
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs against the reference alone, before pytest selects by markers."""
    for item in items:
        parameters = (
            item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        )
        if any(isinstance(value, str) and value in REFERENCES for value in parameters):
            item.add_marker(pytest.mark.long)


def need_java() -> None:
    """Skip without Java and Maven; on a build server let what follows fail."""
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)


@pytest.fixture(scope="session", params=[pytest.param(name, id=name) for name in BROKERS])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """`host:port` of the broker under test."""
    if request.param == "barnabas":
        with Barnabas(SETTINGS) as ours:
            yield ours.bootstrap_servers
    else:
        need_java()
        with ApacheKafka(SETTINGS) as reference:
            yield reference.bootstrap_servers


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test uses."""
    mark = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{mark}"


@pytest.fixture(scope="session")
def tours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled tours. Go is nobody's requirement: without it, or without its modules, there is nothing to run."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    if subprocess.run(
        ["go", "mod", "download"], cwd=GO_PROGRAM, capture_output=True, timeout=300, check=False
    ).returncode:
        pytest.skip("the Go modules cannot be fetched, or this Go is too old for them")
    binary = tmp_path_factory.mktemp("go") / "tours"
    built = subprocess.run(
        ["go", "test", "-c", "-o", str(binary), "."],
        cwd=GO_PROGRAM,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return binary
