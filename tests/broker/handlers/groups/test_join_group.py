"""JoinGroup: what a member is known by, and the memory of those that wait."""

from __future__ import annotations

import pytest

from broker.composition import group_coordinator_settings
from broker.handlers.groups.client_address import java_address_text
from broker.handlers.groups.join_group import join_group
from config.broker import BrokerSettings
from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import join_request


async def test_a_member_id_that_could_not_be_sent_is_refused() -> None:
    async with GroupBroker() as broker:
        response = await join_group(join_request(), broker.context(5, client_id="x" * 32_767))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        response = await join_group(join_request(instance="x" * 32_767), broker.context(5))
        assert response.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::a:1", "/2001:db8:0:0:0:0:a:1"),
        ("::ffff:10.1.2.3", "/10.1.2.3"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1"),
        ("peer", "/peer"),
    ],
)
def test_addresses_are_written_as_java_writes_them(host: str, expected: str) -> None:
    assert java_address_text(host) == expected


def test_the_memory_of_requests_that_wait_is_a_setting() -> None:
    settings = group_coordinator_settings(BrokerSettings({"barnabas.group.waiting.max.bytes": "5000000"}))
    assert settings.groups.waiting_max_bytes == 5_000_000
    assert group_coordinator_settings(BrokerSettings({})).groups.waiting_max_bytes == 128 << 20
