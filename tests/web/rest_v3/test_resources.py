"""REST v3 over a broker of ours: resources that are read, made, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.embedded import EmbeddedBroker
from tests.web.rest_v3.v3_client import v3_client
from tests.web.running import BASE_URI, app_client

SETTINGS = {"auto.create.topics.enable": "false"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker({"read": 3}, {**SETTINGS, "authorizer.class.name": "", "broker.rack": "r1"}) as broker:
        yield broker.bootstrap_servers


async def test_the_cluster_and_its_brokers(servers: str) -> None:
    async with v3_client(servers) as v3:
        here = f"{BASE_URI}/v3/clusters/{v3.cluster_id}"
        cluster = await v3.get("")
        assert (await v3.http.get("/v3/clusters/")).json()["data"] == [cluster]
        assert cluster["controller"] == {"related": f"{here}/brokers/0"}
        assert cluster["metadata"] == {"self": here, "resource_name": f"crn:///kafka={v3.cluster_id}"}
        listed = await v3.get("/brokers")
        assert listed["metadata"] == {"self": f"{here}/brokers", "next": None}
        [broker] = listed["data"]
        assert (broker["broker_id"], broker["host"], broker["rack"]) == (0, "127.0.0.1", "r1")
        assert broker == await v3.get("/brokers/0")
        assert {row["topic_name"] for row in (await v3.get("/brokers/0/partition-replicas"))["data"]} >= {"read"}


async def test_a_topic_is_made_grows_and_goes(servers: str) -> None:
    async with v3_client(servers) as v3:
        body = {"topic_name": "made", "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "1000"}]}
        await v3.ask("POST", "/topics", 200, json={**body, "validate_only": True})
        assert (await v3.get("/topics/made", 404))["error_code"] == 40403
        created = await v3.ask("POST", "/topics", 201, json=body)
        assert (created["partitions_count"], created["replication_factor"], created["is_internal"]) == (2, 1, False)
        assert (await v3.ask("POST", "/topics", 400, json=body))["error_code"] == 40002
        grown = await v3.ask("PATCH", "/topics/made", json={"partitions_count": 4})
        assert grown["partitions_count"] == 4
        assert (await v3.ask("PATCH", "/topics/made", 400, json={"partitions_count": 1}))["error_code"] == 40002
        names = [row["topic_name"] for row in (await v3.get("/topics"))["data"]]
        assert names == sorted(names) and {"made", "read"} <= set(names)
        await v3.ask("DELETE", "/topics/made", 204)
        assert (await v3.ask("DELETE", "/topics/made", 404))["error_code"] == 40403


async def test_a_topic_is_made_with_replicas_that_are_named(servers: str) -> None:
    async with v3_client(servers) as v3:
        assignments = [{"partition_id": index, "broker_ids": [0]} for index in range(2)]
        created = await v3.ask(
            "POST", "/topics", 201, json={"topic_name": "placed", "replicas_assignments": assignments}
        )
        assert (created["partitions_count"], created["replication_factor"]) == (2, 1)
        topic = await v3.get("/topics/placed", params={"include_authorized_operations": "true"})
        assert {"READ", "WRITE", "DELETE"} <= set(topic["authorized_operations"])
        await v3.ask("DELETE", "/topics/placed", 204)


async def test_partitions_and_replicas(servers: str) -> None:
    async with v3_client(servers) as v3:
        here = f"{BASE_URI}/v3/clusters/{v3.cluster_id}/topics/read/partitions/1"
        listed = (await v3.get("/topics/read/partitions"))["data"]
        assert [row["partition_id"] for row in listed] == [0, 1, 2]
        partition = await v3.get("/topics/read/partitions/1")
        assert partition == listed[1] and partition["leader"] == {"related": f"{here}/replicas/0"}
        replica = await v3.get("/topics/read/partitions/1/replicas/0")
        assert [replica] == (await v3.get("/topics/read/partitions/1/replicas"))["data"]
        assert replica["is_leader"] and replica["is_in_sync"]
        for path in ("/topics/-/partitions/-/reassignment", "/topics/read/partitions/-/reassignment"):
            assert (await v3.get(path))["data"] == []


async def test_settings_of_a_topic(servers: str) -> None:
    async with v3_client(servers) as v3:
        here = "/topics/read/configs"
        assert (await v3.get(f"{here}/retention.ms"))["is_default"]
        await v3.ask("PUT", f"{here}/retention.ms", 204, json={"value": "5000"})
        setting = await v3.get(f"{here}/retention.ms")
        assert (setting["value"], setting["source"], setting["is_default"]) == ("5000", "DYNAMIC_TOPIC_CONFIG", False)
        changes = [{"name": "retention.ms", "operation": "DELETE"}, {"name": "cleanup.policy", "value": "compact"}]
        await v3.ask("POST", f"{here}:alter", 204, json={"data": changes, "validate_only": True})
        assert (await v3.get(f"{here}/retention.ms"))["value"] == "5000"
        await v3.ask("POST", f"{here}:alter", 204, json={"data": changes})
        policy = await v3.get(f"{here}/cleanup.policy")
        assert [(each["value"], each["source"]) for each in policy["synonyms"]] == [
            ("compact", "DYNAMIC_TOPIC_CONFIG"),
            ("delete", "DEFAULT_CONFIG"),
        ]
        await v3.ask("DELETE", f"{here}/cleanup.policy", 204)
        assert {row["source"] for row in (await v3.get(here))["data"]} == {"DEFAULT_CONFIG"}
        names = {row["topic_name"] for row in (await v3.get("/topics/-/configs"))["data"]}
        assert "read" in names


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "/nothing", {"value": "1"}, 404, 404),
        ("PUT", "/retention.ms", {"value": "soon"}, 400, 40002),
        ("PUT", "/retention.ms", {"value": None}, 400, 40002),
        ("DELETE", "/nothing", None, 404, 404),
        ("POST", ":alter", {"data": [{"name": "retention.ms", "value": "1"}] * 2}, 400, 40002),
        ("POST", ":alter", {"data": [{"name": "nothing", "value": "1"}]}, 404, 404),
        ("POST", ":alter", {"data": [{"name": "retention.ms", "operation": "ADD"}]}, 400, 400),
    ],
)
async def test_settings_that_are_refused(
    servers: str, method: str, path: str, body: Any, status: int, code: int
) -> None:
    async with v3_client(servers) as v3:
        assert (await v3.ask(method, f"/topics/read/configs{path}", status, json=body))["error_code"] == code


async def test_settings_of_brokers(servers: str) -> None:
    async with v3_client(servers) as v3:
        assert (await v3.get("/broker-configs"))["data"] == []
        await v3.ask("PUT", "/broker-configs/log.retention.ms", 204, json={"value": "7000"})
        await v3.ask("PUT", "/brokers/0/configs/log.cleaner.threads", 204, json={"value": "2"})
        everywhere = await v3.get("/broker-configs/log.retention.ms")
        assert (everywhere["value"], everywhere["source"]) == ("7000", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        one = await v3.get("/brokers/0/configs/log.cleaner.threads")
        assert (one["value"], one["source"], one["is_read_only"]) == ("2", "DYNAMIC_BROKER_CONFIG", False)
        assert (await v3.get("/brokers/-/configs"))["data"] == (await v3.get("/brokers/0/configs"))["data"]
        await v3.ask("DELETE", "/brokers/0/configs/log.cleaner.threads", 204)
        alter = {"data": [{"name": "log.retention.ms", "operation": "DELETE"}]}
        await v3.ask("POST", "/broker-configs:alter", 204, json=alter)
        assert (await v3.get("/broker-configs"))["data"] == []


async def test_a_group_its_members_and_its_lag(servers: str) -> None:
    async with v3_client(servers) as v3:
        producer = Producer({"bootstrap.servers": servers})
        for partition in (0, 0, 0, 1):
            producer.produce("read", b"x", partition=partition)
        producer.flush()
        group = "a/b c"
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": group, "client.id": "c1", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["read"])
        left = 4
        while left:
            left -= consumer.poll(30) is not None
        consumer.commit(asynchronous=False)
        producer.produce("read", b"x", partition=1)
        producer.flush()
        here = "/consumer-groups/a%2Fb%20c"
        found = await v3.get(here)
        assert (found["state"], found["is_simple"], found["partition_assignor"]) == ("STABLE", False, "range")
        assert found in (await v3.get("/consumer-groups"))["data"]
        member = (await v3.get(f"{here}/consumers"))["data"][0]
        assert member["client_id"] == "c1"
        for link, count in ((found["consumers"], 1), (member["assignments"], 3)):
            response = await v3.http.get(link["related"])
            assert len(response.json()["data"]) == count
        one = response.json()["data"][1]
        assert (await v3.http.get(one["metadata"]["self"])).json() == one
        lags = (await v3.get(f"{here}/lags"))["data"]
        assert [(row["partition_id"], row["current_offset"], row["log_end_offset"], row["lag"]) for row in lags] == [
            (1, 1, 2, 1),
            (0, 3, 3, 0),
        ]
        assert (await v3.http.get(one["lag"]["related"])).json()["partition_id"] == 1
        summary = await v3.get(f"{here}/lag-summary")
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_consumer_id"]) == (
            1,
            1,
            member["consumer_id"],
        )
        consumer.close()
        assert (await v3.get(here))["state"] == "EMPTY"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/brokers/7", 404),
        ("/brokers/x", 404),
        ("/brokers/7/configs", 404),
        ("/topics/absent", 40403),
        ("/topics/absent/configs", 40403),
        ("/topics/read/configs/nothing", 404),
        ("/topics/read/partitions/9", 40403),
        ("/topics/read/partitions/0/reassignment", 404),
        ("/topics/read/partitions/0/replicas/7", 404),
        ("/broker-configs/nothing", 404),
        ("/consumer-groups/absent", 404),
        ("/consumer-groups/absent/lags", 404),
        ("/nothing", 404),
    ],
)
async def test_what_there_is_not(servers: str, path: str, code: int) -> None:
    async with v3_client(servers) as v3:
        found = await v3.get(path, 404)
        assert found["error_code"] == code and found["message"]


async def test_another_cluster_and_a_cluster_that_is_away(servers: str) -> None:
    async with v3_client(servers) as v3:
        response = await v3.http.get("/v3/clusters/other/topics")
        assert (response.status_code, response.json()["error_code"]) == (404, 404)
        async with app_client("127.0.0.1:1", {"default.api.timeout.ms": "200"}) as client:
            response = await client.get("/v3/clusters")
            assert (response.status_code, response.json()["error_code"]) == (503, 50003)


async def test_nothing_is_changed_where_the_process_only_reads(servers: str) -> None:
    async with app_client(servers) as client:
        cluster = (await client.get("/v3/clusters")).json()["data"][0]["cluster_id"]
        document = (await client.get("/api/openapi.json")).json()
        body = {"topic_name": "t", "value": "1", "data": [], "partitions_count": 9}
        changes = [
            (method, path)
            for path, operations in document["paths"].items()
            for method in operations
            if path.startswith("/v3") and method != "get"
        ]
        assert len(changes) > 10
        for method, path in changes:
            real = path.replace("{cluster_id}", cluster).replace("{broker_id}", "0").replace("{topic_name}", "read")
            response = await client.request(method, real, json=body)
            assert (response.status_code, response.json()["error_code"]) == (403, 40301), (method, path)
