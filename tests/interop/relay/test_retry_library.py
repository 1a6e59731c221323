"""`barnabas.retry` with Apache Kafka 3.9.1: the tests of tests/barnabas/retry, which run with a broker of ours."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType

import pytest

from tests.barnabas.retry import test_retries
from tests.barnabas.retry.test_retries import topics
from tests.interop.conftest import need_java
from tests.oracle.kafka import ApacheKafka

__all__ = ["topics"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def broker() -> Iterator[ApacheKafka]:
    need_java()
    with ApacheKafka({"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


def _tests() -> Iterator[FunctionType]:
    """Copies, whose marks are those of this module as well."""
    for name, test in vars(test_retries).items():
        if name.startswith("test_") and "topics" in test.__code__.co_varnames[: test.__code__.co_argcount]:
            copy = FunctionType(test.__code__, test.__globals__, name, test.__defaults__, test.__closure__)
            copy.pytestmark = [*getattr(test, "pytestmark", [])]  # type: ignore[attr-defined]
            yield copy


globals().update((test.__name__, test) for test in _tests())
