"""Consumers of REST v2 whose users have few rights, whose brokers come and go, and whose records mean harm."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from client.reading.positions import FetchedBatches, ReadRecord, Reset
from client.settings.parsing import addresses
from client.settings.values import BearerSettings, ClientSettings, LoginSettings
from protocol.records.any_format import iter_any_headers
from protocol.records.compression import Compression
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch
from tests.web.access.secured import SETTINGS, basic
from tests.web.running import WRITES, app_client
from web.cluster.user_cluster import UserCluster
from web.rest_v2 import record_queue
from web.rest_v2.forms import EmbeddedFormat
from web.rest_v2.instance import ConsumerInstance
from web.rest_v2.instance_settings import InstanceSettings
from web.rest_v2.record_queue import RecordQueue
from web.surroundings import Surroundings

V2 = {"content-type": "application/vnd.kafka.v2+json"}
BINARY = {"content-type": "application/vnd.kafka.binary.v2+json"}
RECORDS = {"records": [{"value": base64.b64encode(b"x").decode()}]}


async def test_users_have_consumers_and_rights_of_their_own() -> None:
    acls = ["alice read topic orders", "alice read group shared", "bob describe topic orders"]
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    with EmbeddedBroker(["orders"], security="sasl_plaintext", users=users, acls=acls) as broker:
        async with app_client(broker.bootstrap_servers, SETTINGS) as client:

            async def ask(user: str, method: str, path: str, body: Any = None) -> httpx.Response:
                return await client.request(method, path, json=body, headers={**V2, **basic(user)})

            path = "/consumers/shared/instances/one"
            wanted = {"name": "one", "fetch.min.bytes": 0}
            assert (await client.post("/consumers/shared", json=wanted, headers=V2)).status_code == 401
            for user in ("alice", "bob"):
                assert (await ask(user, "POST", "/consumers/shared", wanted)).status_code == 200
                await ask(user, "POST", f"{path}/subscription", {"topics": ["orders"]})
            assert (await ask("alice", "GET", f"{path}/records")).json() == []
            answer = httpx.Response(200)
            while answer.status_code == 200:
                answer = await ask("bob", "GET", f"{path}/records")
            assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
            assert (await ask("bob", "DELETE", path)).status_code == 204
            assert (await ask("bob", "GET", f"{path}/records")).status_code == 404
            assert (await ask("alice", "GET", f"{path}/subscription")).json() == {"topics": ["orders"]}
            rows = await client.post("/topics/orders", json=RECORDS, headers={**BINARY, **basic("alice")})
            assert [row["error_code"] for row in rows.json()["offsets"]] == [40301]


async def test_a_consumer_goes_on_once_its_broker_is_back() -> None:
    with EmbeddedBroker(["t"]) as broker:
        settings = {**WRITES, "request.timeout.ms": "2000", "default.api.timeout.ms": "5000"}
        async with app_client(broker.bootstrap_servers, settings) as client:
            given = {"name": "n", "auto.offset.reset": "earliest", "fetch.min.bytes": 0}
            await client.post("/consumers/g", json=given, headers=V2)
            path = "/consumers/g/instances/n"
            await client.post(f"{path}/subscription", json={"topics": ["t"]}, headers=V2)

            async def read(count: int) -> list[int]:
                found: list[int] = []
                while len(found) < count:
                    answer = await client.get(f"{path}/records", params={"timeout": 200})
                    if answer.is_success:
                        found += [each["offset"] for each in answer.json()]
                    else:
                        assert answer.json()["error_code"] == 50003, answer.text
                return found

            await client.post("/topics/t", json=RECORDS, headers=BINARY)
            assert await read(1) == [0]
            broker.kill()
            down = await client.get(f"{path}/records", params={"timeout": 200})
            assert down.status_code == 200 or down.json()["error_code"] == 50003
            assert (await client.get("/topics/t")).json()["error_code"] == 50003
            broker.restart()
            await client.post("/topics/t", json=RECORDS, headers=BINARY)
            assert (await read(1))[-1] == 1


async def test_a_consumer_goes_on_with_another_login_of_its_user() -> None:
    with EmbeddedBroker(["t"], security="sasl_plaintext", users={"alice": "secret"}) as broker:
        surroundings, login = Surroundings(), LoginSettings("PLAIN", "alice", "secret")
        clusters = [
            UserCluster(
                ClientSettings(
                    addresses("bootstrap.servers", broker.bootstrap_servers),
                    login=login,
                ),
                surroundings,
                "alice",
            )
            for each in (login, replace(login, bearer=BearerSettings()))  # the same to brokers, another one here
        ]
        producer = await clusters[0].producer()
        for value in (b"a", b"b", b"c", b"d"):
            await (await producer.send("t", value))
        for is_member in (True, False):
            settings = InstanceSettings(
                group="g", name="n", form=EmbeddedFormat.BINARY, reset=Reset.EARLIEST, commits_by_itself=True, min_bytes=0,
                timeout_ms=1_000, max_bytes=1,
            )  # fmt: skip
            reader = ConsumerInstance(settings, clusters[0], surroundings.clock, surroundings.randomness, offset_of)
            if is_member:
                await reader.subscribe(["t"])
            else:
                await reader.assign([("t", 0)])
            found: list[bytes] = []
            for cluster in clusters:
                await reader.use(cluster)
                before = len(found)
                while len(found) == before:
                    found += await reader.read(None, None)
            await reader.close()
            assert found == ([b"0", b"1"] if is_member else [b"2", b"3"])
        for cluster in clusters:
            await cluster.close()
        await surroundings.close()


async def offset_of(record: ReadRecord) -> bytes:
    return b"%d" % record.record.offset


def batch(value: bytes, offset: int, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch([Record(offset, 0, None, value, [])], base_offset=offset, compression=compression)


def fetched(*batches: bytes, start: int = 0) -> FetchedBatches:
    buffer = b"".join(batches)
    return FetchedBatches("t", 0, start, 0, buffer, list(iter_any_headers(buffer)), 0, 0)


def test_a_batch_that_unpacks_to_too_much_stays_first_until_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_queue, "MAX_UNPACKED_BYTES", 10_000)
    queue = RecordQueue()
    queue.add([fetched(batch(b"a", 0), batch(b"\0" * 1_000_000, 1, Compression.ZSTD), batch(b"c", 2))])
    first = queue.first()
    assert first is not None and first.record.value == b"a" and queue.offset(("t", 0)) == 0
    queue.take()
    for _ in range(2):
        with pytest.raises(InvalidBatch):
            queue.first()
        assert queue.offset(("t", 0)) == 1
    queue.drop([("t", 0)])
    assert queue.first() is None and queue.offset(("t", 0)) is None
