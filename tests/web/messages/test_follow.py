"""Live views over HTTP: what is written appears, a browser that connects again goes on where it was, and nothing is kept for
slow readers."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.live_stream import live
from tests.web.messages.records import Row, make_topic, write
from tests.web.running import app_client

FOLLOW = "/api/topics/{}/messages/follow"


async def test_what_is_written_appears_also_to_who_connects_again(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "live", 2)
    write(broker, topic, [Row(b"before")])
    async with app_client(broker.bootstrap_servers) as client:
        async with live(client, FOLLOW.format(topic)) as stream:
            started = await stream.next("progress")
            assert [(row["from"], row["at"]) for row in started["partitions"]] == [(1, 1), (0, 0)]
            write(broker, topic, [Row(b"first", partition=1)])
            assert (await stream.next("record"))["value"]["text"] == "first"
            assert (await stream.next("progress"))["skipped_records"] == 0
            last_id = stream.last_id
        write(broker, topic, [Row(b"meanwhile")])
        async with live(client, FOLLOW.format(topic), last_event_id=last_id) as stream:
            assert (await stream.next("record"))["value"]["text"] == "meanwhile"


async def test_only_what_fulfils_the_conditions(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "filtered")
    async with (
        app_client(broker.bootstrap_servers) as client,
        live(client, FOLLOW.format(topic), {"where": "key:is:b"}) as stream,
    ):
        await stream.next("progress")
        write(broker, topic, [Row(b"1", b"a"), Row(b"2", b"b")])
        assert (await stream.next("record"))["value"]["text"] == "2"


async def test_what_is_too_much_to_show_is_passed_over_and_told(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "flood")
    async with app_client(broker.bootstrap_servers) as client, live(client, FOLLOW.format(topic)) as stream:
        await stream.next("progress")
        write(broker, topic, [Row(b"x" * 100) for _ in range(30_000)])
        while not (told := await stream.next("progress"))["skipped_records"] or told["partitions"][0]["at"] < 30_000:
            pass
        write(broker, topic, [Row(b"afterwards")])
        while (await stream.next("record"))["value"]["text"] != "afterwards":
            pass


async def test_a_topic_that_is_deleted_ends_it(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "deleted")
    async with app_client(broker.bootstrap_servers) as client, live(client, FOLLOW.format(topic)) as stream:
        await stream.next("progress")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(30)
        problem = await stream.next("problem")
        assert problem["is_final"] and problem["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_there_are_so_many_at_a_time(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "crowd")
    async with app_client(broker.bootstrap_servers, {"barnabas.web.follow.max": "1"}) as client:
        async with live(client, FOLLOW.format(topic)) as stream:
            await stream.next("progress")
            refused = await client.get(FOLLOW.format(topic))
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY")
        async with live(client, FOLLOW.format(topic)) as stream:
            await stream.next("progress")
