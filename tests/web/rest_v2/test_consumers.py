"""Consumer instances of REST v2, over a broker."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from runtime.network.os_transport import OsNetwork
from tests.web.running import WRITES, app_client
from tests.web.schemas.fake_registry import URL, FakeRegistry, avro_bytes
from web.surroundings import Surroundings

V2 = {"content-type": "application/vnd.kafka.v2+json"}
BINARY = {"content-type": "application/vnd.kafka.binary.v2+json"}
JSON = {"content-type": "application/vnd.kafka.json.v2+json"}
TOPICS = ["read", "pattern.one", "pattern.two", "other", "wrong", "avro", "committed", "moved"]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    topics = dict.fromkeys(TOPICS, 1) | {"wide": 4}
    with EmbeddedBroker(topics, {"auto.create.topics.enable": "false"}) as broker:
        yield broker


class Consumer:
    """An instance, by HTTP."""

    def __init__(self, client: httpx.AsyncClient, path: str) -> None:
        self.client = client
        self.path = path

    async def post(self, what: str, body: Any = None, *, status: int = 204) -> Any:
        answer = await self.client.post(f"{self.path}/{what}", json=body, headers=V2)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, what: str, body: Any = None) -> Any:
        answer = await self.client.request("GET", f"{self.path}/{what}", json=body, headers=V2)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def read(self, count: int, **parameters: int) -> list[dict[str, Any]]:
        """Read until there are as many records: the group may take a while."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            answer = await self.client.get(f"{self.path}/records", params=parameters)
            assert answer.status_code == 200, answer.text
            found += answer.json()
        return found


async def consumer(client: httpx.AsyncClient, group: str, **settings: Any) -> Consumer:
    given = {"auto.offset.reset": "earliest", "fetch.min.bytes": 0} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    answer = await client.post(f"/consumers/{group}", json=given, headers=V2)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made["base_uri"] == f"{client.base_url}/consumers/{group}/instances/{made['instance_id']}"
    return Consumer(client, httpx.URL(made["base_uri"]).path)


@asynccontextmanager
async def application(
    broker: EmbeddedBroker, settings: Mapping[str, str] | None = None, surroundings: Surroundings | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(broker.bootstrap_servers, {**WRITES, **(settings or {})}, surroundings) as client:
        yield client


async def write(client: httpx.AsyncClient, topic: str, *values: Any, partition: int = 0) -> None:
    records = [{"key": f"k{index}", "value": value} for index, value in enumerate(values)]
    answer = await client.post(f"/topics/{topic}/partitions/{partition}", json={"records": records}, headers=JSON)
    assert all(row["error"] is None for row in answer.json()["offsets"]), answer.text


async def test_a_member_of_a_group_reads_and_another_goes_on_behind_it(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        await write(client, "read", {"a": 1}, 1.50, None)
        first = await consumer(client, "g1", format="json", name="one")
        assert await first.get("subscription") == {"topics": []}
        await first.post("subscription", {"topics": ["read"]})
        records = await first.read(3)
        assert records[0] == {"topic": "read", "key": "k0", "value": {"a": 1}, "partition": 0, "offset": 0}
        assert [each["value"] for each in records] == [{"a": 1}, 1.5, None]
        assert await first.get("assignments") == {"partitions": [{"topic": "read", "partition": 0}]}
        assert (await client.delete(first.path)).status_code == 204
        assert (await client.get(f"{first.path}/records")).json()["error_code"] == 40403
        await write(client, "read", "new")
        second = await consumer(client, "g1", format="json")
        await second.post("subscription", {"topics": ["read"]})
        assert [each["value"] for each in await second.read(1)] == ["new"]


async def test_offsets_are_committed_and_shown(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        await write(client, "committed", *range(5))
        reader = await consumer(client, "g2", format="json", auto_commit_enable="false")
        await reader.post("subscription", {"topics": ["committed"]})
        asked = {"partitions": [{"topic": "committed", "partition": 0}]}
        assert await reader.read(2, max_bytes=1)
        await reader.read(1, max_bytes=1)
        assert await reader.get("offsets", asked) == {"offsets": []}
        await reader.post("offsets", status=200)
        shown = {"topic": "committed", "partition": 0, "offset": 3, "metadata": ""}
        assert await reader.get("offsets", asked) == {"offsets": [shown]}
        row = {"topic": "committed", "partition": 0, "offset": 0, "metadata": "why"}
        await reader.post("offsets", {"offsets": [row]}, status=200)
        assert await reader.get("offsets", asked) == {"offsets": [row | {"offset": 1}]}
        await client.delete(reader.path)
        alone = await consumer(client, "g2", format="json", auto_commit_enable="false")
        await alone.post("assignments", asked)
        assert (await alone.read(4))[0]["offset"] == 1
        await alone.post("offsets", status=200)
        assert (await alone.get("offsets", asked))["offsets"][0]["offset"] == 5


async def test_partitions_of_its_own_and_positions(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        await write(client, "moved", *"abc")
        reader = await consumer(client, "g3", auto_offset_reset="latest")
        mine = {"partitions": [{"topic": "moved", "partition": 0}]}
        await reader.post("assignments", mine)
        assert await reader.get("assignments") == mine
        await reader.post("positions", {"offsets": [{"topic": "moved", "partition": 0, "offset": 1}]})
        assert [each["offset"] for each in await reader.read(2)] == [1, 2]
        await reader.post("positions/beginning", mine)
        records = await reader.read(3)
        assert [base64.b64decode(each["value"]) for each in records] == [b'"a"', b'"b"', b'"c"']
        await reader.post("positions/end", mine)
        await write(client, "moved", "d")
        assert [each["offset"] for each in await reader.read(1)] == [3]
        await reader.post("assignments", {"partitions": []})
        assert await reader.get("assignments") == {"partitions": []}


async def test_two_members_share_partitions(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        members = [await consumer(client, "g4", format="json") for _ in range(2)]
        for each in members:
            await each.post("subscription", {"topics": ["wide"]})
        shares: list[int] = []
        while sorted(shares) != [2, 2]:
            for each in members:
                await client.get(f"{each.path}/records", params={"timeout": 50})
            shares = [len((await each.get("assignments"))["partitions"]) for each in members]


async def test_a_pattern_of_topics(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        await write(client, "pattern.one", 1)
        await write(client, "pattern.two", 2)
        reader = await consumer(client, "g5", format="json")
        await reader.post("subscription", {"topic_pattern": "pattern[.].*"})
        assert await reader.get("subscription") == {"topics": ["pattern.one", "pattern.two"]}
        assert sorted(each["value"] for each in await reader.read(2)) == [1, 2]
        wrong = await reader.post("subscription", {"topic_pattern": "("}, status=422)
        assert "RE2" in wrong["message"]
        assert (await client.delete(f"{reader.path}/subscription")).status_code == 204
        assert await reader.get("subscription") == {"topics": []}


async def test_a_record_that_is_not_of_the_format_is_named_and_passed(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        wrong = [{"value": base64.b64encode(each).decode()} for each in (b"1", b"NaN", b"\xff\xfe1\x00", b"2")]
        await client.post("/topics/wrong", json={"records": wrong}, headers=BINARY)
        reader = await consumer(client, "g6", format="json")
        await reader.post("assignments", {"partitions": [{"topic": "wrong", "partition": 0}]})
        assert [each["value"] for each in await reader.read(1)] == [1]
        for _ in range(2):
            answer = await client.get(f"{reader.path}/records")
            assert (answer.status_code, answer.json()["error_code"]) == (500, 50002)
            assert "wrong-0 at offset 1" in answer.json()["message"]
        await reader.post("positions", {"offsets": [{"topic": "wrong", "partition": 0, "offset": 3}]})
        assert [each["value"] for each in await reader.read(1)] == [2]


async def test_records_with_schemas(broker: EmbeddedBroker) -> None:
    fake = FakeRegistry()
    schema = {"type": "record", "name": "A", "fields": [{"name": "u", "type": ["null", "string"]}]}
    data = avro_bytes(fake.add_avro(schema), schema, {"u": "x"})
    surroundings = Surroundings(http=httpx.AsyncClient(transport=fake), network=OsNetwork())
    async with application(broker, {"schema.registry.url": URL}, surroundings) as client:
        await client.post(
            "/topics/avro", json={"records": [{"value": base64.b64encode(data).decode()}]}, headers=BINARY
        )
        reader = await consumer(client, "g7", format="avro")
        await reader.post("assignments", {"partitions": [{"topic": "avro", "partition": 0}]})
        answer = httpx.Response(204)
        while answer.content in (b"", b"[]"):
            answer = await client.get(
                f"{reader.path}/records", headers={"accept": "application/vnd.kafka.avro.v2+json"}
            )
        assert answer.headers["content-type"] == "application/vnd.kafka.avro.v2+json"
        assert answer.json()[0]["value"] == {"u": {"string": "x"}}
        other = await consumer(client, "g7b", format="jsonschema")
        await other.post("assignments", {"partitions": [{"topic": "avro", "partition": 0}]})
        answer = await client.get(f"{other.path}/records", params={"timeout": 1000})
        assert "is of the type AVRO" in answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "status", "number"),
    [
        ({"format": "xml"}, 422, 422),
        ({"format": "avro"}, 422, 42204),
        ({"auto.offset.reset": "first"}, 422, 42204),
        ({"fetch.min.bytes": -2}, 422, 40001),
        ({"fetch.min.bytes": 10_000_001}, 422, 40001),
        ({"consumer.request.timeout.ms": 10**9}, 422, 40001),
        ({"name": ""}, 422, 422),
        ({"other": 1}, 422, 422),
    ],
)
async def test_instances_that_are_not_made(body: dict[str, Any], status: int, number: int) -> None:
    async with app_client("127.0.0.1:1", WRITES) as client:
        answer = await client.post("/consumers/g", json=body, headers=V2)
        assert (answer.status_code, answer.json()["error_code"]) == (status, number), answer.text


async def test_requests_that_do_not_fit_the_consumer(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        mine = {"partitions": [{"topic": "other", "partition": 0}]}
        reader = await consumer(client, "g8", name="n")
        again = await client.post("/consumers/g8", json={"name": "n"}, headers=V2)
        assert (again.status_code, again.json()["error_code"]) == (409, 40902)
        assert (await client.get(f"{reader.path}/records")).json()["error_code"] == 40903
        for what, body in (
            ("positions/end", mine),
            ("positions", {"offsets": [mine["partitions"][0] | {"offset": 0}]}),
        ):
            found = await reader.post(what, body, status=409)
            assert found["error_code"] == 40903 and "No current assignment for partition other-0" in found["message"]
        await reader.post("assignments", mine)
        assert (await reader.post("subscription", {"topics": ["other"]}, status=409))["error_code"] == 40903
        accept = {"accept": "application/vnd.kafka.json.v2+json"}
        assert (await client.get(f"{reader.path}/records", headers=accept)).json()["error_code"] == 40601
        for topic, partition, number in (("absent", 0, 40401), ("other", 5, 40402)):
            body = {"partitions": [{"topic": topic, "partition": partition}]}
            assert (await reader.post("assignments", body, status=404))["error_code"] == number
        assert (await reader.post("subscription", {}, status=422))["error_code"] == 422
        assert (await client.get(f"{reader.path}/offsets")).json()["error_code"] == 40402
        absent = await client.delete("/consumers/g8/instances/absent")
        assert (absent.status_code, absent.json()["error_code"]) == (404, 40403)


async def test_a_consumer_without_an_offset_says_so_until_it_is_told_one(broker: EmbeddedBroker) -> None:
    async with application(broker) as client:
        reader = await consumer(client, "g9", auto_offset_reset="none")
        await reader.post("subscription", {"topics": ["other"]})
        await write(client, "other", 1)
        for _ in range(2):
            answer = httpx.Response(200)
            while answer.status_code == 200:
                answer = await client.get(f"{reader.path}/records")
            assert "other-0 has no committed offset" in answer.json()["message"]
        await reader.post("positions", {"offsets": [{"topic": "other", "partition": 0, "offset": 0}]})
        assert (await reader.read(1))[0]["offset"] == 0


async def test_consumers_are_bounded_and_end_when_nobody_uses_them(broker: EmbeddedBroker) -> None:
    settings = {"barnabas.web.consumer.instances.max": "1", "barnabas.web.consumer.instance.timeout.ms": "500"}
    async with application(broker, settings) as client:
        reader = await consumer(client, "g10")
        answer = await client.post("/consumers/g10", headers=V2)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50301)
        await reader.post("subscription", {"topics": ["other"]})
        while (await client.post("/consumers/g10", headers=V2)).status_code == 503:
            pass
        assert (await client.get(f"{reader.path}/records")).json()["error_code"] == 40403


async def test_a_process_that_only_reads_has_no_consumers(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers) as client:
        answer = await client.post("/consumers/g", json={}, headers=V2)
        assert answer.status_code == 403


async def test_what_the_answers_are_is_described(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers) as client:
        described = (await client.get("/api/openapi.json")).json()
        records = described["paths"]["/consumers/{group}/instances/{instance}/records"]["get"]["responses"]["200"]
        assert "application/vnd.kafka.avro.v2+json" in records["content"]
        references = json.dumps(described).split('"#/components/schemas/')[1:]
        assert {each.partition('"')[0] for each in references} <= set(described["components"]["schemas"])
