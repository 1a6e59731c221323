"""Admin requests in all their versions, asked of three brokers of Apache Kafka and of three of ours: the same answers.

What is different on purpose stands in docs/differences.md; those places are named in DIFFERENT here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.interop.cluster.cluster_cases  # noqa: F401  declares the cases
from tests.differential.exceptions import free_texts
from tests.differential.normal import differences
from tests.interop.cluster.cluster_play import CASES, play
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin
from tests.oracle.cluster import KAFKA, OURS, Cluster

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

DIFFERENT: dict[str, str] = {}
"""Cases with answers of ours that differ on purpose, and why."""


SETTINGS = {
    "zookeeper.session.timeout.ms": "30000",  # nobody leaves here
    "log.retention.ms": "-1",  # some records are years old
}


def started(kind: str) -> Iterator[Cluster]:
    """Broker 1 is the first, and so controls."""
    need_java()
    with Cluster((), settings=SETTINGS) as cluster:
        for number in (1, 2, 3):
            cluster.add(number, kind).start()
        cluster.wait_until_known()
        assert cluster.controller_id == 1
        Admin(cluster).coordinator_of("warm-up")
        cluster.wait_in_sync()
        yield cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    yield from started(KAFKA)


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    yield from started(OURS)


@pytest.mark.parametrize("name", sorted(CASES))
def test_answers_are_the_same(name: str, kafka: Cluster, ours: Cluster) -> None:
    case = CASES[name]
    expected, actual = play(case, kafka), play(case, ours)
    free = free_texts(name.split("-")[0])
    found = [f"v{one}{line}" for one in case.versions for line in differences(expected[one], actual[one], free=free)]
    assert bool(found) == (name in DIFFERENT), "\n".join(found[:40]) or "the difference is gone"
