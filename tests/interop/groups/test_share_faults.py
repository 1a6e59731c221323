"""Share consumers of real clients while requests of theirs are refused, come late, or end their connection: they go on, and
nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.embedded import EmbeddedBroker
from tests.interop.groups.conftest import NEWEST_LEVELS, QUICK_GROUPS, ShareConsumerOf
from tests.interop.groups.share_members import PATIENCE_S, Reading, has_gone_on, set_group
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

PARTITIONS = 2
TIMES = 3
"""How many requests have each fault."""
FAULTS = [
    ("ShareGroupHeartbeat", "COORDINATOR_NOT_AVAILABLE"),
    ("ShareGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ShareGroupHeartbeat", "NOT_COORDINATOR"),
    ("ShareGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ShareGroupHeartbeat", None),
    ("ShareFetch", "SHARE_SESSION_NOT_FOUND"),
    ("ShareFetch", "INVALID_SHARE_SESSION_EPOCH"),
    ("ShareFetch", "SHARE_SESSION_LIMIT_REACHED"),
    ("ShareFetch", None),
    ("ShareAcknowledge", "SHARE_SESSION_NOT_FOUND"),
    ("ShareAcknowledge", "INVALID_SHARE_SESSION_EPOCH"),
    ("ShareAcknowledge", None),
]
"""An error of an API, or None: its connection ends."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={**QUICK_GROUPS, **NEWEST_LEVELS}) as running:
        yield running


@pytest.mark.parametrize("client", ["librdkafka", "Java"])
@pytest.mark.parametrize(("api", "error"), FAULTS)
def test_members_go_on(
    broker: EmbeddedBroker, share_consumer_of: ShareConsumerOf, client: str, api: str, error: str | None
) -> None:
    topic = group = f"{client}-{api}-{error}"
    servers = broker.bootstrap_servers
    broker.create_topic(topic, PARTITIONS)
    set_group(servers, group, auto_offset_reset="earliest")
    reading = Reading(
        servers, topic, PARTITIONS, [client] * 2, lambda name: share_consumer_of(name, servers, group, topic)
    )
    with reading.checked() as members:
        broker.inject(api, error, times=TIMES, disconnect=error is None)
        assert wait_until(lambda: not broker.faults_left(), PATIENCE_S), "nothing was refused"
        assert wait_until(has_gone_on(members), PATIENCE_S)
