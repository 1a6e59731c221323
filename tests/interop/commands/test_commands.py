"""Every command against Apache Kafka 3.9.1: the tests of tests/tools and tests/relay, which run with a broker of ours, with
that one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import FunctionType

import pytest

from tests.interop.conftest import need_java
from tests.oracle.kafka import ApacheKafka
from tests.tools.command_table import ROWS
from tests.tools.test_commands import tool

__all__ = ["tool"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(180)]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.retention.ms": "-1",  # some records are years old
}


@pytest.fixture(scope="module")
def broker() -> Iterator[ApacheKafka]:
    need_java()
    with ApacheKafka(SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def secured(broker: ApacheKafka) -> ApacheKafka:
    return broker


OF_OURS = {
    "test_without_an_authorizer_acls_say_so",  # the one below has an authorizer
    "test_levels_of_loggers_are_described_and_altered",  # loggers have other names
}


def _tests() -> Iterator[FunctionType]:
    """Those of the table, and as long ones whatever else its modules try with a broker: copies with marks of their own."""
    rows = {row for row in ROWS.values() if row[0].startswith(("tests.tools.", "tests.relay."))}
    for module in sorted({module for module, _ in rows}):
        for name, test in vars(importlib.import_module(module)).items():
            if not name.startswith("test_") or name in OF_OURS:
                continue
            if {"tool", "secured"} & set(test.__code__.co_varnames[: test.__code__.co_argcount]):
                copy = FunctionType(test.__code__, test.__globals__, name, test.__defaults__, test.__closure__)
                marks = [*getattr(test, "pytestmark", [])]
                copy.pytestmark = marks if (module, name) in rows else [*marks, pytest.mark.long]  # type: ignore[attr-defined]
                yield copy


globals().update((test.__name__, test) for test in _tests())
