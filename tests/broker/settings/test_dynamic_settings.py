"""Dynamic settings are read, followed, written, and survive what other releases stored."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.settings.dynamic_settings import CLUSTER_DEFAULT
from broker.settings.stored_passwords import PasswordsRefused
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.topic import LogConfig
from metadata.store import change_nodes, configs
from metadata.store.port import ConnectionLossError
from tests.async_tests import simulated
from tests.broker.settings_world import SettingsWorld
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

PATIENCE_S = 60.0
LATENCY_S = 0.01


async def test_what_is_stored_at_the_start_holds() -> None:
    async with SettingsWorld({"log.segment.bytes": "500"}) as world:
        await configs.write_entity_config(world.store, "topics", "t", {"segment.bytes": "1000"})
        await configs.write_entity_config(world.store, "brokers", "<default>", {"message.max.bytes": "7"})
        await configs.write_entity_config(world.store, "brokers", "5", {"message.max.bytes": "9"})
        fifth, sixth = await world.broker(5), await world.broker(6)
        assert fifth.log_config("t").segment_bytes == 1000
        assert fifth.log_config("u").segment_bytes == 500
        assert (fifth.log_config("u").max_message_bytes, sixth.log_config("t").max_message_bytes) == (9, 7)
        assert fifth.settings.message_max_bytes == 9


async def test_every_broker_hears_of_a_topics_change() -> None:
    async with SettingsWorld() as world:
        other = await world.broker(1)
        heard: asyncio.Queue[tuple[str, LogConfig]] = asyncio.Queue()
        other.on_topic_changed(lambda topic, config: heard.put_nowait((topic, config)))
        for size in ("1000", "2000"):
            await world.settings.alter_topic("t", lambda _, size=size: {"segment.bytes": size}, validate_only=False)
            assert world.settings.log_config("t").segment_bytes == int(size), "readable where it was written"
            topic, config = await asyncio.wait_for(heard.get(), PATIENCE_S)
            assert (topic, config.segment_bytes) == ("t", int(size))
            assert other.log_config("t") is config
        await world.settings.alter_topic("t", lambda _: {}, validate_only=False)
        _, config = await asyncio.wait_for(heard.get(), PATIENCE_S)
        assert config.segment_bytes == 2**30


async def test_brokers_hear_of_their_own_and_the_clusters_settings() -> None:
    async with SettingsWorld() as world:
        other = await world.broker(1)
        heard: asyncio.Queue[BrokerSettings] = asyncio.Queue()
        other.on_broker_changed(heard.put_nowait)
        await world.settings.alter_broker(lambda _: {"max.connections": "5"}, per_broker=True, validate_only=False)
        await world.settings.alter_broker(lambda _: {"max.connections": "6"}, per_broker=False, validate_only=False)
        assert (await asyncio.wait_for(heard.get(), PATIENCE_S)).max_connections == 6
        assert world.settings.settings.max_connections == 5
        assert heard.empty()


def test_a_listener_that_fails_keeps_no_change_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            other = await world.broker(1)

            def fail(*what: object) -> None:
                raise ZeroDivisionError(str(what[0]))

            topics: asyncio.Queue[int] = asyncio.Queue()
            brokers: asyncio.Queue[int] = asyncio.Queue()
            for settings in (world.settings, other):
                settings.on_topic_changed(fail)
                settings.on_broker_changed(fail)
            other.on_topic_changed(lambda _topic, config: topics.put_nowait(config.segment_bytes))
            other.on_broker_changed(lambda settings: brokers.put_nowait(settings.max_connections))
            for size in (1000, 2000):
                await world.settings.alter_topic(
                    "t", lambda _, size=size: {"segment.bytes": str(size)}, validate_only=False
                )
                assert await asyncio.wait_for(topics.get(), PATIENCE_S) == size
            await world.settings.alter_broker(lambda _: {"max.connections": "6"}, per_broker=False, validate_only=False)
            assert await asyncio.wait_for(brokers.get(), PATIENCE_S) == 6

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 6, "each broker tells of each"
    assert all("changed settings not applied" in record.message for record in failures)


async def test_a_change_missed_while_the_session_was_lost_is_read_at_the_next() -> None:
    async with SettingsWorld() as world:
        lost = world.ensemble.connect()
        other = await world.broker(1, lost)
        heard: asyncio.Queue[int] = asyncio.Queue()
        other.on_topic_changed(lambda _topic, config: heard.put_nowait(config.segment_bytes))
        # There is a node already: one write is faster than a new session, several are not.
        await configs.write_entity_config(world.store, "topics", "t", {})
        world.ensemble.expire(lost.session().session_id)
        await configs.write_entity_config(world.store, "topics", "t", {"segment.bytes": "3000"})
        assert await asyncio.wait_for(heard.get(), PATIENCE_S) == 3000


@pytest.mark.parametrize("answers", range(8))
@simulated(1)
async def test_a_session_that_ends_during_the_start_does_not_end_it(answers: int) -> None:
    """After so many answers of the store, with the next request on its way."""
    async with SettingsWorld() as world:
        await configs.write_entity_config(world.store, "topics", "t", {"segment.bytes": "3000"})
        store = world.ensemble.connect()
        world.ensemble.latency_s = lambda: LATENCY_S
        starting = asyncio.ensure_future(world.broker(1, store))
        first = store.session()
        await asyncio.sleep((2 * answers + 0.5) * LATENCY_S)
        assert not starting.done()
        world.ensemble.expire(first.session_id)
        other = await asyncio.wait_for(starting, PATIENCE_S)
        assert store.session() is not first
        assert other.log_config("t").segment_bytes == 3000
        await configs.alter_entity_config(world.store, "topics", "t", {"segment.bytes": "4000"})
        await asyncio.sleep(1)
        assert other.log_config("t").segment_bytes == 4000


async def test_validate_only_changes_nothing() -> None:
    async with SettingsWorld() as world:
        await world.settings.alter_topic("t", lambda _: {"segment.bytes": "1000"}, validate_only=True)
        await world.settings.alter_broker(lambda _: {"max.connections": "5"}, per_broker=True, validate_only=True)
        assert await world.settings.topic_settings("t") == {}
        assert world.settings.layers.dynamic_broker == {}
        assert await world.store.children("/config/changes") == []


async def test_a_refused_change_is_not_stored() -> None:
    async with SettingsWorld() as world:
        with pytest.raises(ConfigError, match="at least 14"):
            await world.settings.alter_topic("t", lambda _: {"segment.bytes": "1"}, validate_only=False)
        with pytest.raises(PasswordsRefused):
            await world.settings.alter_broker(
                lambda _: {"listener.name.a.ssl.key.password": "x"}, per_broker=True, validate_only=False
            )
        assert await configs.entity_config(world.store, "topics", "t") == {}
        assert await configs.entity_config(world.store, "brokers", "0") == {}


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners", "listener.security.protocol.map"])
async def test_listeners_that_change_with_a_restart_alone_are_refused_and_passed_over(name: str) -> None:
    """What another broker has stored stays there, and nobody is told that it holds."""
    async with SettingsWorld() as world:
        before = world.settings.settings
        for validate_only in (False, True):
            with pytest.raises(ConfigError, match=f"Cannot update these configs dynamically: {name}"):
                await world.settings.alter_broker(
                    lambda _: {name: "PLAINTEXT://x:1"}, per_broker=True, validate_only=validate_only
                )
        await configs.alter_entity_config(world.store, "brokers", "0", {name: "PLAINTEXT://x:1"})
        await world.settings.catch_up()
        assert world.settings.settings == before and name not in world.settings.layers.dynamic_broker
        await world.settings.alter_broker(
            lambda stored: {**stored, "max.connections": "5"}, per_broker=True, validate_only=False
        )
        assert world.settings.settings.max_connections == 5
        assert (await configs.entity_config(world.store, "brokers", "0"))[name] == "PLAINTEXT://x:1"


async def test_a_password_that_apache_kafka_has_stored_stays_and_holds_up_no_other_change() -> None:
    password = {"listener.name.a.ssl.key.password": "c1pher"}
    async with SettingsWorld() as world:
        await configs.write_entity_config(world.store, "brokers", "0", password)
        for text in ("5", "6"):
            await world.settings.alter_broker(
                lambda stored, text=text: {**stored, "max.connections": text}, per_broker=True, validate_only=False
            )
            assert world.settings.settings.max_connections == int(text)
        with pytest.raises(PasswordsRefused):
            await world.settings.alter_broker(
                lambda stored: dict.fromkeys(stored, "7"), per_broker=True, validate_only=False
            )
        found = await configs.entity_config(world.store, "brokers", "0")
        assert found == password | {"max.connections": "6"}


async def test_concurrent_changes_of_one_topic_are_both_kept() -> None:
    async with SettingsWorld() as world:
        await asyncio.gather(
            *(
                world.settings.alter_topic("t", lambda stored, name=name: {**stored, name: "1000"}, validate_only=False)
                for name in ("segment.bytes", "segment.ms", "retention.ms")
            )
        )
        assert (await world.settings.topic_settings("t")).keys() == {"segment.bytes", "segment.ms", "retention.ms"}


def test_stored_values_that_cannot_be_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            topic = {"segment.bytes": "1", "from.the.future": "x", "segment.ms": "1000"}
            await configs.write_entity_config(world.store, "topics", "t", topic)
            broker = {
                "message.max.bytes": "-9",
                "max.connections": "5",
                "max.connections.per.ip.overrides": "some.host:5",  # Apache Kafka takes host names
                "listener.name.a.ssl.key.password": "c1pher",
            }
            await configs.write_entity_config(world.store, "brokers", "1", broker)
            with caplog.at_level(logging.WARNING):
                other = await world.broker(1)
            assert other.log_config("t").segment_ms == 1000
            assert other.log_config("t").segment_bytes == 2**30
            assert other.layers.dynamic_broker == {"max.connections": "5"}

    asyncio.run(run())
    assert "segment.bytes" in caplog.text
    assert "message.max.bytes" in caplog.text
    assert "max.connections.per.ip.overrides" in caplog.text
    assert "c1pher" not in caplog.text


async def test_java_code_that_guards_something_is_refused_where_it_is_set_and_where_it_is_stored() -> None:
    """Apache Kafka applies it: a broker that passes over it would let in who is kept out there."""
    name = "listener.name.a.principal.builder.class"
    async with SettingsWorld({"zookeeper.connect": "z:1"}) as world:
        with pytest.raises(ConfigError, match=f"{name}=x.Builder: this broker runs no Java"):
            await world.settings.alter_broker(lambda _: {name: "x.Builder"}, per_broker=True, validate_only=False)
        own = {name: "x.Builder", "max.connections": "5"}
        await configs.write_entity_config(world.store, "brokers", "1", own)
        with pytest.raises(ConfigError, match="stored in ZooKeeper for broker 1"):
            await world.broker(1)
        read_only = {"client.quota.callback.class": "x.Callback"}  # Apache Kafka passes over it, too
        await configs.write_entity_config(world.store, "brokers", "2", read_only)
        assert (await world.broker(2)).layers.dynamic_broker == {}
        await configs.write_entity_config(world.store, "brokers", "0", own)
        await configs.alter_entity_config(world.store, "brokers", "0", own)
        await world.settings.catch_up()
        assert world.settings.layers.dynamic_broker == {"max.connections": "5"}


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize("beside", [{}, {"message.max.bytes": "-9"}])
async def test_settings_that_can_be_only_together_hold(per_broker: bool, beside: dict[str, str]) -> None:
    """Whatever order they are stored in: a cleaner thread needs its megabyte of the buffer."""
    together = {"log.cleaner.threads": "200", "log.cleaner.dedupe.buffer.size": str(2**29), "max.connections": "5"}
    async with SettingsWorld() as world:
        await world.settings.alter_broker(lambda _: together, per_broker=per_broker, validate_only=False)
        name = "0" if per_broker else CLUSTER_DEFAULT
        await configs.alter_entity_config(world.store, "brokers", name, together | beside)
        await world.settings.catch_up()
        started_later = await world.broker(0)
        for dynamic in (world.settings, started_later):
            layers = dynamic.layers
            assert (layers.dynamic_broker if per_broker else layers.dynamic_default) == together
            assert dynamic.settings.log_cleaner_threads == 200


async def test_users_clients_and_addresses_are_kept() -> None:
    async with SettingsWorld() as world:
        for path in ("/config/users/alice", "/config/users/alice/clients"):
            await world.store.create(path)
        await configs.write_entity_config(world.store, "clients", "<default>", {"producer_byte_rate": "1"})
        await configs.write_entity_config(world.store, "users/alice/clients", "app", {"request_percentage": "2"})
        other = await world.broker(1)
        assert other.entities == {
            "users/alice/clients/app": {"request_percentage": "2"},
            "clients/<default>": {"producer_byte_rate": "1"},
        }
        changed: list[tuple[str, dict[str, str]]] = []
        other.on_entity_changed(lambda path, stored: changed.append((path, dict(stored))))
        await configs.alter_entity_config(world.store, "ips", "10.0.0.1", {"connection_creation_rate": "3"})
        await configs.alter_entity_config(world.store, "users/alice/clients", "app", {"request_percentage": "4"})
        await other.catch_up()
        assert other.entities["ips/10.0.0.1"] == {"connection_creation_rate": "3"}
        assert other.entities["users/alice/clients/app"] == {"request_percentage": "4"}
        await configs.alter_entity_config(world.store, "clients", "<default>", {})
        await other.catch_up()
        assert "clients/<default>" not in other.entities
        assert changed == [
            ("ips/10.0.0.1", {"connection_creation_rate": "3"}),
            ("users/alice/clients/app", {"request_percentage": "4"}),
            ("clients/<default>", {}),
        ]


def test_nodes_that_are_none_of_ours_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            await world.store.create("/config/topics/t", b"not JSON")
            other = await world.broker(1)
            assert other.log_config("t").segment_bytes == 2**30
            for data in (b"", b"[]", b'{"version":2}', b"\xff"):
                await world.store.create("/config/changes/config_change_", data, sequential=True)
            await world.store.create("/config/changes/something_else", b"")
            await configs.alter_entity_config(world.store, "topics", "u", {"segment.bytes": "1000"})
            await other.catch_up()
            assert other.log_config("u").segment_bytes == 1000

    asyncio.run(run())
    assert "change of settings ignored" in caplog.text
    assert "settings node ignored" in caplog.text


@simulated(1)
async def test_a_suspended_session_goes_on_following_and_hears_everything_once() -> None:
    async with SettingsWorld() as world:
        store = world.ensemble.connect()
        other = await world.broker(1, store)
        heard: list[int] = []
        other.on_topic_changed(lambda _topic, config: heard.append(config.segment_bytes))
        for size in range(1000, 1005):
            store.session().cut()
            await asyncio.sleep(1)
            await configs.alter_entity_config(world.store, "topics", "t", {"segment.bytes": str(size)})
            store.session().mend()
            await asyncio.sleep(1)
        assert heard == list(range(1000, 1005))
        assert len(store.session().watches.children["/config/changes"]) == 1


@simulated(1)
async def test_settings_that_could_not_be_read_when_a_log_opened_are_read_once_the_store_is_back() -> None:
    """The log of a compacted topic would otherwise lose records to the default retention until the next restart."""
    async with SettingsWorld() as world:
        store = world.ensemble.connect()
        other = await world.broker(1, store)
        session_id = store.session().session_id
        await configs.write_entity_config(world.store, "topics", "new", {"cleanup.policy": "compact"})
        world.ensemble.session_timeout_s = 6
        store.session().cut()
        learning = asyncio.ensure_future(other.learn_topics(["new"]))
        world.ensemble.session_timeout_s = 60  # the ensemble itself was away, and starts to count anew
        await asyncio.sleep(1)
        store.session().speak_again()
        with pytest.raises(ConnectionLossError):
            await learning
        assert other.log_config("new").cleanup_policy == ("delete",)
        store.session().mend()
        await asyncio.sleep(1)
        assert store.session().session_id == session_id
        assert other.log_config("new").cleanup_policy == ("compact",)


@simulated(1)
async def test_changes_that_everybody_has_seen_are_purged(loop: SimLoop) -> None:
    async with SettingsWorld(clock=SimClock(loop)) as world:
        await world.settings.alter_topic("t", lambda _: {"segment.bytes": "1000"}, validate_only=False)
        await asyncio.sleep(change_nodes.EXPIRATION_MS / 1000 - 60)
        await world.settings.alter_topic("t", lambda _: {"segment.bytes": "2000"}, validate_only=False)
        await asyncio.sleep(1)
        assert len(await world.store.children("/config/changes")) == 2
        await asyncio.sleep(120)
        await world.settings.alter_topic("t", lambda _: {"segment.bytes": "3000"}, validate_only=False)
        await asyncio.sleep(1)
        left = await world.store.children("/config/changes")
        assert left == ["config_change_0000000001", "config_change_0000000002"]
        assert world.settings.log_config("t").segment_bytes == 3000
