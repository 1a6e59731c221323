"""The rules of a relay are read as soon as all brokers know their topic."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from client.event_loop.cluster_client import AsyncClusterClient
from config.acl_settings import AclSettings
from protocol.errors import ErrorCode, KafkaError
from relay.names import RelayNames
from relay.relaying import rules_feed
from relay.relaying.rules_feed import KNOWN_MS, RulesFeed
from tests.async_tests import simulated
from tests.doubles.clock import LoopClock
from tests.simulation.loop import SimLoop


class NoTopics:
    async def run(self, steps: Any) -> dict[str, Any]:
        steps.close()
        return {}


@pytest.mark.parametrize(("failures", "is_known"), [(3, True), (10_000, False)])
@simulated(1)
async def test_a_topic_that_was_just_created_is_waited_for(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch, failures: int, is_known: bool
) -> None:
    names, began_ms, asked = RelayNames("relay"), loop.time() * 1000, 0

    async def read_whole(*_: Any) -> dict[tuple[str, int], int]:
        nonlocal asked
        asked += 1
        if asked <= failures:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "relay-rules-0 does not exist")
        return {(names.rules, 0): 5}

    monkeypatch.setattr(rules_feed, "read_whole", read_whole)
    cluster = cast(AsyncClusterClient, NoTopics())
    feed = RulesFeed(cluster, names, LoopClock(), random.Random(1), {}, set(), 60_000, AclSettings())
    if is_known:
        await feed.load()
        assert asked == failures + 1
        return
    with pytest.raises(KafkaError):
        await feed.load()
    assert KNOWN_MS <= loop.time() * 1000 - began_ms < KNOWN_MS + 2_000
