"""Topics and brokers with sizes, offsets and replicas, as the page asks for them."""

from __future__ import annotations

from confluent_kafka import Producer

from barnabas.embedded import EmbeddedBroker
from tests.web.running import app_client


async def test_topics_have_records_and_sizes() -> None:
    with EmbeddedBroker({"orders": 3, "empty": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for partition in (0, 0, 2):
            producer.produce("orders", b"x" * 100, partition=partition)
        assert producer.flush(30) == 0
        async with app_client(broker.bootstrap_servers) as client:
            found = (await client.get("/api/topics")).json()
            rows = {row["name"]: row for row in found["topics"]}
            assert found["notes"] == []
            assert {key: rows["orders"][key] for key in ("partitions", "replicas", "records", "behind", "leaderless")} == {
                "partitions": 3, "replicas": 1, "records": 3, "behind": 0, "leaderless": 0,
            }  # fmt: skip
            assert rows["orders"]["size_bytes"] > 300
            assert (rows["empty"]["records"], rows["empty"]["size_bytes"]) == (0, 0)


async def test_one_topic_has_its_partitions_and_replicas() -> None:
    with EmbeddedBroker({"orders": 2}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"x", partition=1)
        assert producer.flush(30) == 0
        async with app_client(broker.bootstrap_servers) as client:
            found = (await client.get("/api/topics/orders")).json()
            assert [(row["partition"], row["leader"], row["start"], row["end"]) for row in found["partitions"]] == [
                (0, 0, 0, 0),
                (1, 0, 0, 1),
            ]
            [replica] = found["partitions"][1]["replicas"]
            assert (replica["broker"], replica["is_in_sync"], replica["lag"], replica["is_offline"]) == (
                0,
                True,
                0,
                False,
            )
            assert replica["size_bytes"] > 0


async def test_a_topic_that_is_not_there_is_not_found() -> None:
    with EmbeddedBroker() as broker:
        async with app_client(broker.bootstrap_servers) as client:
            answer = await client.get("/api/topics/missing")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


async def test_brokers_have_their_disks() -> None:
    with EmbeddedBroker({"orders": 3}) as broker:
        async with app_client(broker.bootstrap_servers) as client:
            found = (await client.get("/api/brokers")).json()
            [row] = found["brokers"]
            assert (row["id"], row["is_controller"], row["leaders"], row["replicas"], row["behind"]) == (
                0,
                True,
                3,
                3,
                0,
            )
            [directory] = row["directories"]
            assert directory["total_bytes"] >= directory["usable_bytes"] > 0
            assert (found["missing"], found["topics"], found["partitions"]) == ([], 1, 3)
            assert (found["replicas"], found["behind"]) == (3, 0)


async def test_no_broker_is_a_plain_error() -> None:
    settings = {"default.api.timeout.ms": "500", "request.timeout.ms": "400"}
    async with app_client("127.0.0.1:1", settings) as client:
        answer = await client.get("/api/topics")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNREACHABLE")
