"""REST v3 over brokers of both kinds, also by curl as Confluent documents it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.web.rest_v3.v3_client import V3Client, v3_client
from tests.web.running import WRITES, running_web

pytestmark = pytest.mark.interop
JSON = {"content-type": "application/json"}


async def made(v3: V3Client, topic: str) -> None:
    """Make a topic with two partitions; return when the broker that is asked knows it."""
    body = {"topic_name": topic, "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "-1"}]}
    created = await v3.ask("POST", "/topics", 201, json=body)
    assert (created["partitions_count"], created["replication_factor"]) == (2, 1)
    while not (await v3.http.get(created["metadata"]["self"])).is_success:
        pass


async def test_resources(bootstrap: str, fresh: Callable[[str], str]) -> None:
    topic = fresh("rest-v3")
    async with v3_client(bootstrap) as v3:
        await made(v3, topic)
        here = f"/topics/{topic}"
        lines = "".join(json.dumps({"partition_id": n % 2, "value": {"type": "JSON", "data": n}}) for n in range(10))
        response = await v3.http.post(f"/v3/clusters/{v3.cluster_id}{here}/records", content=lines, headers=JSON)
        reports = [json.loads(line) for line in response.text.splitlines()]
        assert [(row["partition_id"], row["offset"]) for row in reports] == [(n % 2, n // 2) for n in range(10)]

        [broker] = (await v3.get("/brokers"))["data"]
        assert (await v3.get(f"/brokers/{broker['broker_id']}/configs/broker.id"))["is_read_only"]
        setting = await v3.get(f"{here}/configs/retention.ms")
        assert (setting["value"], setting["source"]) == ("-1", "DYNAMIC_TOPIC_CONFIG")
        await v3.ask("PUT", f"{here}/configs/max.message.bytes", 204, json={"value": "100"})
        large = json.dumps({"value": {"type": "STRING", "data": "x" * 200}})
        codes = {200}
        while 200 in codes:  # a broker takes a setting a moment later
            response = await v3.http.post(f"/v3/clusters/{v3.cluster_id}{here}/records", content=large, headers=JSON)
            codes = {json.loads(response.text)["error_code"]}
        assert codes == {413}
        await v3.ask("DELETE", f"{here}/configs/max.message.bytes", 204)

        assert (await v3.ask("PATCH", here, json={"partitions_count": 3}))["partitions_count"] == 3
        replica = await v3.get(f"{here}/partitions/0/replicas/{broker['broker_id']}")
        assert replica["is_leader"] and replica["is_in_sync"]
        assert (await v3.get(f"{here}/partitions/-/reassignment"))["data"] == []
        assert (await v3.get("/acls", 400))["error_code"] == 40002
        assert (await v3.get("/consumer-groups/absent", 404))["error_code"] == 404
        await v3.ask("DELETE", here, 204)
        assert (await v3.ask("DELETE", here, 404))["error_code"] == 40403


def test_records_by_curl(bootstrap: str, fresh: Callable[[str], str]) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    topic = fresh("rest-v3-curl")

    async def prepare() -> str:
        async with v3_client(bootstrap) as v3:
            await made(v3, topic)
            return v3.cluster_id

    cluster = asyncio.run(prepare())
    with running_web(bootstrap, WRITES) as web:
        here = f"{web.url}/v3/clusters/{cluster}/topics/{topic}/records"
        record = json.dumps({"key": {"type": "BINARY", "data": "Zm9vYmFy"}, "value": {"type": "STRING", "data": "v"}})
        silent = [curl, "--silent", "--show-error", "--max-time", "60", "-H", "Content-Type: application/json"]
        one = subprocess.run([*silent, "-X", "POST", here, "-d", record], capture_output=True, check=True)
        assert json.loads(one.stdout)["key"] == {"type": "BINARY", "size": 6}
        stream = [*silent, "-X", "POST", "-H", "Transfer-Encoding: chunked", here, "-T", "-"]
        many = subprocess.run(stream, input=record.encode() * 1_000, capture_output=True, check=True)
        assert [json.loads(line)["error_code"] for line in many.stdout.splitlines()] == [200] * 1_000
