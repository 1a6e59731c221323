"""Groups over the page's endpoints: listed with lag, reset, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas.embedded import EmbeddedBroker
from tests.web.page.asking import page_client

TIMEOUT_S = 30
ODD = 'billing/é"<b>'
"""A name of a group may hold anything."""


@contextmanager
def member(servers: str, group: str, **others: str) -> Iterator[Consumer]:
    """A member of a group that has read two records of "t" and committed them."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "<i>"}
    consumer = Consumer({"bootstrap.servers": servers, **settings, **others})
    try:
        consumer.subscribe(["t"])
        messages = consumer.consume(2, TIMEOUT_S)
        consumer.commit(message=messages[-1], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def written(servers: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce("t", b"value", partition=0, timestamp=1_700_000_000_000 + number)
    assert producer.flush(TIMEOUT_S) == 0


async def test_a_group_is_shown_reset_and_deleted() -> None:
    with EmbeddedBroker({"t": 1}) as broker:
        servers = broker.bootstrap_servers
        written(servers, 5)
        async with page_client(servers) as page:
            with member(servers, ODD):
                [row] = (await page.get("groups"))["groups"]
                assert (row["group"], row["kind"], row["state"], row["lag"]) == (ODD, "classic", "Stable", 3)
                assert (row["members_count"], row["partitions_count"], row["topics"]) == (1, 1, ["t"])
                found = await page.get("groups/details", group=ODD)
                [one] = found["members"]
                assert (one["client_id"], one["partitions"]) == ("<i>", ["t-0"])
                [partition] = found["partitions"]
                assert (partition["current_offset"], partition["log_end_offset"], partition["lag"]) == (2, 5, 3)
                assert partition["member_id"] == one["member_id"]
                reset = {"group": ODD, "to": "earliest"}
                assert (await page.refused("groups/offsets", reset, 409))[0] == "NON_EMPTY_GROUP"
                assert (await page.refused("groups/delete", {"group": ODD}, 409))[0] == "NON_EMPTY_GROUP"
            for target, offset, wanted in (
                ({"to": "earliest"}, 0, 0),
                ({"to": "offset", "value": 9}, 5, 9),
                ({"to": "shift", "value": -1}, 1, 1),
                ({"to": "time", "value": 1_700_000_000_003}, 3, 3),
                ({"to": "latest", "topics": ["t"]}, 5, 5),
            ):
                [new] = (await page.post("groups/offsets", {"group": ODD, **target}))["partitions"]
                assert (new["current_offset"], new["new_offset"], new["wanted"]) == (2, offset, wanted)
            chosen = {"group": ODD, "to": "offset", "value": 4, "partitions": [{"topic": "t", "partition": 0}]}
            assert (await page.post("groups/offsets", {**chosen, "execute": True}))["changed"]
            assert (await page.get("groups/details", group=ODD))["lag"] == 1
            deletion = {"group": ODD, "partitions": [{"topic": "t", "partition": 0}]}
            assert (await page.get("groups"))["groups"][0]["unknown_count"] == 0
            assert await page.post("groups/offsets/delete", deletion) == {"count": 1}
            assert (await page.get("groups"))["groups"] == [], "a group without members and offsets is none"
            again = {"group": ODD, "to": "latest", "topics": ["t"], "execute": True}
            assert (await page.post("groups/offsets", again))["partitions"][0]["current_offset"] is None
            await page.post("groups/delete", {"group": ODD})
            assert (await page.get("groups"))["groups"] == []
            assert (await page.get("groups/details", 404, group=ODD))["error"]["code"] == "GROUP_ID_NOT_FOUND"


async def test_a_group_of_the_consumer_protocol_has_epochs() -> None:
    with EmbeddedBroker({"t": 1}) as broker:
        servers = broker.bootstrap_servers
        written(servers, 3)
        async with page_client(servers) as page:
            with member(servers, "g", **{"group.protocol": "consumer"}):
                [row] = (await page.get("groups"))["groups"]
                assert (row["kind"], row["members_count"], row["lag"]) == ("consumer", 1, 1)
                found = await page.get("groups/details", group="g")
                assert found["group_epoch"] >= found["assignment_epoch"] >= 1
                [one] = found["members"]
                assert one["member_epoch"] >= 1
                assert one["partitions"] == one["target_partitions"] == ["t-0"]


async def test_a_share_group_is_shown_reset_and_forgotten() -> None:
    with EmbeddedBroker({"t": 1}, settings={"group.share.assignment.interval.ms": 0}) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        setting = ConfigResource(ConfigResource.Type.GROUP, "s", incremental_configs=[entry])
        admin.incremental_alter_configs([setting])[setting].result(TIMEOUT_S)
        written(servers, 5)
        consumer = ShareConsumer(
            {"bootstrap.servers": servers, "group.id": "s", "share.acknowledgement.mode": "explicit", "log_level": 0}
        )
        async with page_client(servers) as page:
            try:
                consumer.subscribe(["t"])
                left = 5
                while left:
                    for message in consumer.poll(1.0):
                        consumer.acknowledge(message)
                        left -= 1
                consumer.commit_sync(TIMEOUT_S)
                [row] = (await page.get("groups"))["groups"]
                assert (row["group"], row["kind"], row["members_count"], row["lag"]) == ("s", "share", 1, 0)
                found = await page.get("groups/details", group="s")
                assert found["group_epoch"] >= found["assignment_epoch"] >= 1
                assert [each["partitions"] for each in found["members"]] == [["t-0"]]
                assert (await page.refused("groups/offsets", {"group": "s", "to": "earliest"}, 409))[
                    0
                ] == "NON_EMPTY_GROUP"
            finally:
                consumer.close()
            reset = {"group": "s", "to": "offset", "value": 2}
            [new] = (await page.post("groups/offsets", {**reset, "execute": True}))["partitions"]
            assert new["new_offset"] == 2
            assert (await page.get("groups/details", group="s"))["lag"] == 3
            deletion = {"group": "s", "partitions": [{"topic": "t", "partition": 0}]}
            assert await page.post("groups/offsets/delete", deletion) == {"count": 1}
            assert (await page.get("groups/details", group="s"))["partitions"] == []
            await page.post("groups/delete", {"group": "s"})
            assert (await page.get("groups"))["groups"] == []


async def test_a_member_is_removed() -> None:
    with EmbeddedBroker({"t": 1}) as broker:
        servers = broker.bootstrap_servers
        written(servers, 2)
        async with page_client(servers) as page:
            with member(servers, "g"):
                [one] = (await page.get("groups/details", group="g"))["members"]
                names = [{"member_id": one["member_id"], "instance_id": one["instance_id"]}]
                assert await page.post("groups/members/remove", {"group": "g", "members": names}) == {"count": 1}
                left = (await page.get("groups/details", group="g"))["members"]
                assert one["member_id"] not in {each["member_id"] for each in left}


async def test_what_is_refused() -> None:
    with EmbeddedBroker() as broker:
        async with page_client(broker.bootstrap_servers, {}) as page:
            assert (await page.refused("groups/delete", {"group": "g"}, 403))[0] == "READ_ONLY"
        async with page_client(broker.bootstrap_servers) as page:
            assert (await page.refused("groups/offsets", {"group": "g", "to": "offset"}, 422))[0] == "INVALID"
            assert (await page.refused("groups/offsets", {"group": "g", "to": "latest"}, 422))[1].endswith("topic")
            assert (
                "UNKNOWN_TOPIC"
                in (await page.refused("groups/offsets", {"group": "g", "to": "latest", "topics": ["none"]}, 404))[1]
            )
            assert (await page.refused("groups/delete", {"group": "g", "more": 1}, 422))[0] == "INVALID"
