"""One warning for a client that speaks the group protocol of KIP-848, and few for many."""

from __future__ import annotations

import logging

import pytest

from broker.network.connections.client_connection import ClientConnection, RequestFacts
from broker.observability.client_warnings import CLIENTS_MAX, REMEMBERED_MS, ClientWarnings
from runtime.network.transport import Address
from security.principal import ANONYMOUS
from tests.doubles.clock import ManualClock


def context_of(client_id: str | None, host: str = "10.1.1.1", software: tuple[str, str] | None = None) -> RequestFacts:
    connection = ClientConnection(
        "1", "PLAINTEXT", "PLAINTEXT", Address(host, 5), Address("10.0.0.1", 9092), ANONYMOUS, software=software
    )
    return RequestFacts(0, 1, client_id, connection)


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_client_is_named_once_with_what_it_can_do(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ClientWarnings(ManualClock())
    for client_id, host in (("app", "10.1.1.1"), ("app", "10.1.1.1"), ("app", "10.1.1.2"), (None, "10.1.1.2")):
        warnings.unserved_group_protocol(context_of(client_id, host, ("librdkafka", "2.10.0")), "billing")
    first, *others = caplog.messages
    assert first == (
        "group protocol of KIP-848 not served: group=billing client_id='app' software=librdkafka/2.10.0 "
        "address=10.1.1.1 listener=PLAINTEXT resolution=set group.protocol=classic for this consumer"
    )
    assert len(others) == 2


def test_clients_with_ever_new_names_use_little_memory_and_little_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    warnings = ClientWarnings(clock)
    for number in range(CLIENTS_MAX + 5):
        warnings.unserved_group_protocol(context_of(f"{number}-" * 1000), "g" * 30_000)
    assert len(caplog.messages) == CLIENTS_MAX
    assert max(map(len, caplog.messages)) < 1000
    caplog.clear()
    clock.now_ms += REMEMBERED_MS
    warnings.unserved_group_protocol(context_of("new"), "g")
    counted, named = caplog.messages
    assert counted == "more clients use the group protocol of KIP-848, not shown: requests=5"
    assert "client_id='new'" in named
