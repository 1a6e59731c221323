"""The store server answers what ZooKeeper 3.8 answered; and that still does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.store.play import Script, play
from tests.differential.store.recording import SUPER_DIGEST, recorded, zookeeper
from tests.differential.store.scripts import SCRIPTS
from tests.oracle import java
from tests.oracle.store_server import StoreServerProcess
from tests.oracle.zookeeper import ZooKeeper

scripts = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)


@pytest.fixture(scope="module")
def ours() -> Iterator[StoreServerProcess]:
    with StoreServerProcess(properties={"DigestAuthenticationProvider.superDigest": SUPER_DIGEST}) as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[ZooKeeper]:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with zookeeper() as server:
        yield server


@scripts
def test_the_answers_are_those_of_zookeeper(ours: StoreServerProcess, script: Script) -> None:
    assert play(script, ("127.0.0.1", ours.port)) == recorded()[script.__name__]


@pytest.mark.oracle
@scripts
def test_zookeeper_answers_as_recorded(theirs: ZooKeeper, script: Script) -> None:
    assert play(script, ("127.0.0.1", theirs.port)) == recorded()[script.__name__]
