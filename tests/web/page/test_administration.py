"""Users, quotas, features, transactions and leaders over the page's endpoints, on one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from barnabas.embedded import EmbeddedBroker
from tests.differential.hanging_transaction import hang
from tests.web.page.asking import page_client

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker({"t": 2}) as broker:
        yield broker.bootstrap_servers


async def test_users(servers: str) -> None:
    async with page_client(servers) as page:
        new = {"name": "alice", "password": "a secret", "mechanism": "SCRAM-SHA-256", "iterations": 5000}
        made = await page.post("users", new)
        assert made == {
            "users": [{"name": "alice", "credentials": [{"mechanism": "SCRAM-SHA-256", "iterations": 5000}]}]
        }
        assert len((await page.post("users", {**new, "mechanism": "SCRAM-SHA-512"}))["users"][0]["credentials"]) == 2
        left = await page.post("users/delete", {"name": "alice", "mechanisms": ["SCRAM-SHA-512"]})
        assert left == made
        assert (await page.post("users/delete", {"name": "alice"})) == {"users": []}
        assert (await page.refused("users/delete", {"name": "alice", "mechanisms": ["SCRAM-SHA-256"]}, 404))[0] == (
            "RESOURCE_NOT_FOUND"
        )
        for wrong in ({"name": ""}, {"password": ""}, {"iterations": 1}, {"mechanism": "PLAIN"}):
            code, text = await page.refused("users", {**new, **wrong}, 422)
            assert code == "INVALID"
            assert "a secret" not in text


async def test_quotas(servers: str) -> None:
    async with page_client(servers) as page:
        change = {"entity": {"user": "bob", "client_id": None}, "quotas": {"producer_byte_rate": 1024}}
        [entry] = (await page.post("quotas", change))["entries"]
        assert sorted((part["kind"], part["name"]) for part in entry["entity"]) == [
            ("client-id", None),
            ("user", "bob"),
        ]
        assert entry["quotas"] == {"producer_byte_rate": 1024}
        assert (await page.get("quotas"))["entries"] == [entry]
        removal = {**change, "quotas": {"producer_byte_rate": None}}
        assert (await page.post("quotas", removal))["entries"] == []
        for wrong in ({"entity": {}}, {"quotas": {}}, {"quotas": {"producer_byte_rate": -1}}, {"quotas": {"none": 1}}):
            await page.refused("quotas", {**change, **wrong}, 422)


async def test_features(servers: str) -> None:
    async with page_client(servers) as page:
        for level in (0, 1):  # as the broker of tests has it
            found = await page.post("features", {"name": "group.version", "level": level})
            assert {each["name"]: each["level"] for each in found["features"]}["group.version"] == level
            assert found["stopping"] == []
        code, _ = await page.refused("features", {"name": "none.version", "level": 1}, 422)
        assert code in ("INVALID_UPDATE_VERSION", "FEATURE_UPDATE_FAILED", "INVALID_REQUEST")


async def test_transactions(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "<pay>"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("t", b"value", partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    async with page_client(servers) as page:
        [row] = (await page.get("transactions"))["transactions"]
        assert (row["transactional_id"], row["state"], row["is_open"]) == ("<pay>", "Ongoing", True)
        assert row["partitions"] == ["t-1"]
        assert row["started_ms"] > 1_700_000_000_000
        assert await page.get("transactions/hanging", quiet_minutes=0) == {"producers": [], "leaderless": []}
        nothing = {"topic": "t", "partition": 1, "producer_id": row["producer_id"], "start_offset": 77}
        assert (await page.refused("transactions/abort", nothing, 404))[0] == "NO_SUCH_TRANSACTION"
        producer.abort_transaction(TIMEOUT_S)
        await page.when("transactions", lambda found: [row["is_open"] for row in found["transactions"]] == [False])


async def test_a_transaction_that_hangs_is_found_and_aborted() -> None:
    with EmbeddedBroker({"t": 1}, {"transaction.partition.verification.enable": "false"}) as broker:
        producer_id = hang(broker.bootstrap_servers, "t")
        async with page_client(broker.bootstrap_servers) as page:
            [row] = (await page.get("transactions/hanging"))["producers"]
            assert (row["topic"], row["partition"], row["producer_id"], row["open_since_offset"]) == (
                "t",
                0,
                producer_id,
                0,
            )
            named = {"topic": "t", "partition": 0, "producer_id": producer_id, "start_offset": 0}
            await page.post("transactions/abort", named)
            assert (await page.get("transactions/hanging", quiet_minutes=0))["producers"] == []
            assert (await page.refused("transactions/abort", named, 404))[0] == "NO_SUCH_TRANSACTION"


async def test_leaders_and_replicas_of_one_broker(servers: str) -> None:
    async with page_client(servers) as page:
        found = await page.get("leaders")
        assert (found["partitions_count"] >= 2, found["others"]) == (True, [])
        assert await page.post("leaders/elect", {}) == {"elected": [], "refused": []}
        named = {"partitions": [{"topic": "t", "partition": 0}]}
        assert await page.post("leaders/elect", named) == {"elected": [], "refused": []}
        assert (await page.refused("leaders/elect", {"kind": "unclean"}, 422))[0] == "INVALID"
        assert await page.get("reassignments") == {"moving": [], "brokers": [0], "unknown": None}
        plan = {"topics": ["t"], "brokers": [0]}
        assert await page.post("reassignments/plan", plan) == {"moves": []}
        assert "no broker 7" in (await page.refused("reassignments/plan", {**plan, "brokers": [7]}, 409))[1]
        wanted = {"partitions": [{"topic": "t", "partition": 0, "replicas": [7]}]}
        assert "no broker 7" in (await page.refused("reassignments", wanted, 409))[1]
        assert await page.post("reassignments/cancel", {}) == {
            "partitions": [],
            "notes": ["throttles are removed from brokers 0 and topics -"],
        }
        assert (await page.post("reassignments/throttles/remove", {}))["partitions"] == []


async def test_health(servers: str) -> None:
    async with page_client(servers) as page:
        found = await page.get("health")
        assert (found["brokers"], found["controller"]) == ([0], 0)
        assert await page.get("health") == found, "whoever asks soon behind it gets the same"
