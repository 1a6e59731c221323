"""Replicas that move between brokers over the page's endpoints: by a plan of the user, and by a balance with its progress."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.embedded import EmbeddedBroker
from tests.web.page.asking import PageClient, page_client

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker({"t": 4}, brokers=3) as broker:
        yield broker.bootstrap_servers


async def placed(page: PageClient, topic: str = "t") -> dict[int, list[int]]:
    """Return the replicas of each partition."""
    moves = (await page.post("reassignments/plan", {"topics": [topic], "brokers": [0, 1, 2], "replication_factor": 3}))[
        "moves"
    ]
    return {each["partition"]: each["before"] for each in moves}


async def test_replicas_move_as_a_user_plans_and_back_by_a_balance(servers: str) -> None:
    async with page_client(servers) as page:
        crowd = [{"topic": "t", "partition": index, "replicas": [0]} for index in range(4)]
        begun = await page.post("reassignments", {"partitions": crowd, "throttle_bytes_per_s": 1_000_000})
        assert begun["partitions"] == [f"t-{index}" for index in range(4)]
        await page.when("reassignments", lambda found: found["moving"] == [])
        assert set(map(tuple, (await placed(page)).values())) == {(0,)}
        cancelled = await page.post("reassignments/cancel", {})
        assert cancelled["partitions"] == []
        assert (await page.get("balance"))["state"] is None
        options = {"topics": ["t"], "sample_s": 0}
        plan = await page.post("balance/plan", options)
        assert {row["broker"] for row in plan["brokers"]} == {0, 1, 2}
        assert plan["moves"]
        await page.refused("balance/start", {"plan_id": "none"}, 404)
        started = await page.post("balance/start", {"plan_id": plan["plan_id"], "throttle_bytes_per_s": 1_000_000})
        assert (started["user"], started["moves_count"]) == ("ANONYMOUS", len(plan["moves"]))
        ended = await page.when("balance", lambda found: found["ended_ms"] is not None)
        assert (ended["state"], ended["failure"], ended["done_count"]) == ("done", None, len(plan["moves"]))
        assert any("throttles are removed" in note for note in ended["notes"])
        assert (await page.refused("balance/start", {"plan_id": plan["plan_id"]}, 404))[0] == "NO_SUCH_PLAN"
        assert (await page.refused("balance/stop", {}, 409))[0] == "NO_BALANCE"
        assert len({broker for [broker] in (await placed(page)).values()}) > 1
        assert (await page.post("balance/plan", options))["moves"] == []


async def test_what_a_balance_refuses(servers: str) -> None:
    async with page_client(servers) as page:
        assert (await page.refused("balance/plan", {"drain": [1], "exclude": [1]}, 422))[0] == "INVALID"
        assert "no broker 9" in (await page.refused("balance/plan", {"drain": [9], "sample_s": 0}, 409))[1]
        assert "no topic none-*" in (await page.refused("balance/plan", {"topics": ["none-*"], "sample_s": 0}, 409))[1]
        moved = {"partitions": [{"topic": "none", "partition": 0, "replicas": [0]}]}
        assert "UNKNOWN_TOPIC" in (await page.refused("reassignments", moved, 404))[1]


async def test_a_move_shows_how_far_it_has_come_and_is_cancelled(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    async with page_client(servers) as page:
        admin = AdminClient({"bootstrap.servers": servers})
        assert admin.create_topics([NewTopic("large", 1, 1)])["large"].result(TIMEOUT_S) is None
        for _ in range(200):
            producer.produce("large", os.urandom(10_000), partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        [source] = (await placed(page, "large"))[0]
        target = (source + 1) % 3
        moved = {"partitions": [{"topic": "large", "partition": 0, "replicas": [target]}], "throttle_bytes_per_s": 1}
        assert (await page.post("reassignments", moved))["partitions"] == ["large-0"]
        found = await page.when("reassignments", lambda found: found["moving"] and found["moving"][0]["total_bytes"])
        [row] = found["moving"]
        assert (row["adding"], row["removing"], found["unknown"]) == ([target], [source], None)
        assert 0 <= row["copied_bytes"] < row["total_bytes"]
        assert (await page.refused("reassignments", moved, 409))[0] == "REASSIGNMENT_IN_PROGRESS"
        assert "being moved" in (await page.refused("balance/plan", {"sample_s": 0}, 409))[1]
        cancelled = await page.post("reassignments/cancel", {"partitions": [{"topic": "large", "partition": 0}]})
        assert cancelled["partitions"] == ["large-0"]
        assert cancelled["notes"] == ["throttles are removed from brokers 0,1,2 and topics large"]
        await page.when("reassignments", lambda found: found["moving"] == [])
        assert await placed(page, "large") == {0: [source]}
