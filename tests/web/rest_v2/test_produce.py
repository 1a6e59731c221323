"""Produce and metadata of REST v2, over a broker."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.running import WRITES, app_client

BINARY = {"content-type": "application/vnd.kafka.binary.v2+json"}
JSON = {"content-type": "application/vnd.kafka.json.v2+json"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        {"orders": 3, "empty": 1}, {"auto.create.topics.enable": "false", "message.max.bytes": 5000}
    ) as broker:
        yield broker


async def test_topics_partitions_and_brokers(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers) as client:
        answer = await client.get("/topics")
        assert answer.headers["content-type"] == "application/vnd.kafka.v2+json"
        assert "orders" in answer.json()
        topic = (await client.get("/topics/orders")).json()
        assert topic["name"] == "orders" and topic["configs"]["cleanup.policy"] == "delete"
        state = {"partition": 0, "leader": 0, "replicas": [{"broker": 0, "leader": True, "in_sync": True}]}
        assert topic["partitions"][0] == state
        assert [each["partition"] for each in (await client.get("/topics/orders/partitions")).json()] == [0, 1, 2]
        assert (await client.get("/topics/orders/partitions/0")).json() == state
        offsets = (await client.get("/topics/empty/partitions/0/offsets")).json()
        assert offsets == {"beginning_offset": 0, "end_offset": 0}
        assert (await client.get("/brokers")).json() == {"brokers": [0]}


@pytest.mark.parametrize(
    ("path", "status", "number"),
    [
        ("/topics/absent", 404, 40401),
        ("/topics/%20no%20name", 404, 40401),
        ("/topics/absent/partitions", 404, 40401),
        ("/topics/orders/partitions/7", 404, 40402),
        ("/topics/orders/partitions/-1", 404, 40402),
        ("/topics/orders/partitions/7/offsets", 404, 40402),
        ("/topics/orders/partitions/x", 422, 422),
    ],
)
async def test_what_is_not_there(broker: EmbeddedBroker, path: str, status: int, number: int) -> None:
    async with app_client(broker.bootstrap_servers) as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (status, number), answer.text
        assert answer.headers["content-type"] == "application/vnd.kafka.v2+json"


async def test_records_are_written_in_both_formats(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        key, value = (base64.b64encode(each).decode() for each in (b"k", b"\x00\xff"))
        records = [{"key": key, "value": value, "partition": 1}, {"value": None, "partition": 1}]
        answer = await client.post("/topics/orders", json={"records": records}, headers=BINARY)
        assert answer.status_code == 200, answer.text
        rows = answer.json()["offsets"]
        assert [(row["partition"], row["error_code"]) for row in rows] == [(1, None), (1, None)]
        assert rows[1]["offset"] == rows[0]["offset"] + 1
        body = {"records": [{"key": 1, "value": {"a": [1.5, None, "ä"]}}]}
        answer = await client.post("/topics/orders/partitions/2", json=body, headers=JSON)
        assert answer.json()["offsets"][0]["partition"] == 2
        assert answer.json()["key_schema_id"] is None


async def test_each_record_has_its_own_error(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        records = [{"value": "a"}, {"value": "x", "partition": 9}, {"value": "x" * 10_000}]
        rows = (await client.post("/topics/orders", json={"records": records}, headers=JSON)).json()["offsets"]
        assert [row["error_code"] for row in rows] == [None, 50002, 50002]
        assert rows[1]["error"] and rows[1]["partition"] is None


def _post(records: Any, headers: dict[str, str], path: str = "/topics/orders") -> tuple[str, dict[str, Any]]:
    return path, {"json": {"records": records}, "headers": headers}


@pytest.mark.parametrize(
    ("request_", "status", "number"),
    [
        (_post([{"value": "YQ=="}], BINARY, "/topics/absent"), 404, 40401),
        (_post([{"value": "YQ=="}], BINARY, "/topics/orders/partitions/9"), 404, 40402),
        (_post([], BINARY), 422, 422),
        (_post([{"value": "no base64"}], BINARY), 422, 422),
        (_post([{"value": {"a": 1}}], BINARY), 422, 422),
        (_post([{"value": 1, "other": 2}], JSON), 422, 422),
        (_post([{"value": 1, "partition": -1}], JSON), 422, 422),
        (_post([{"value": 1}], {"content-type": "application/json"}), 415, 415),
        (_post([{"value": 1}], {"content-type": "application/vnd.kafka.avro.v2+json"}), 415, 415),
        (("/topics/orders", {"content": b'{"records": [', "headers": JSON}), 400, 400),
        (("/topics/orders", {"content": b'{"records": [{"value": NaN}]}', "headers": JSON}), 422, 42203),
        (("/topics/orders", {"content": b'{"records": [{"value": "\\ud800"}]}', "headers": JSON}), 422, 42203),
    ],
)
async def test_requests_that_are_refused(
    broker: EmbeddedBroker, request_: tuple[str, dict[str, Any]], status: int, number: int
) -> None:
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        answer = await client.post(request_[0], **request_[1])
        assert (answer.status_code, answer.json()["error_code"]) == (status, number), answer.text


async def test_a_process_that_only_reads_writes_nothing(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers) as client:
        answer = await client.post("/topics/orders", json={"records": [{"value": 1}]}, headers=JSON)
        assert answer.status_code == 403 and "only read" in answer.json()["message"]


async def test_without_a_broker() -> None:
    settings = {"default.api.timeout.ms": "200", "request.timeout.ms": "100"}
    async with app_client("127.0.0.1:1", settings) as client:
        answer: httpx.Response = await client.get("/topics")
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50003)
