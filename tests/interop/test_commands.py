"""Every command against Apache Kafka 3.9.1: the tests of tests/tools, which run with a broker of ours, with that one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

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
}


@pytest.fixture(scope="module")
def broker() -> Iterator[ApacheKafka]:
    need_java()
    with ApacheKafka(SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def secured(broker: ApacheKafka) -> ApacheKafka:
    return broker


# Those of the table, and whatever else its modules try with a broker.
_modules = {module for module, _ in ROWS.values() if module.startswith("tests.tools.")}
for _module in map(importlib.import_module, sorted(_modules)):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and {"tool", "secured"} & set(
            _test.__code__.co_varnames[: _test.__code__.co_argcount]
        ):
            globals()[_name] = _test
del globals()["test_without_an_authorizer_acls_say_so"]
