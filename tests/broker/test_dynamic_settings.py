"""Dynamic settings are read, followed, written, and survive what other releases stored."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.dynamic_settings import PasswordsRefused
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.topic import LogConfig
from controller import configs
from tests.broker.settings_world import SettingsWorld

PATIENCE_S = 5.0


def test_what_is_stored_at_the_start_holds() -> None:
    async def run() -> None:
        async with SettingsWorld({"log.segment.bytes": "500"}) as world:
            await configs.write_entity_config(world.store, "topics", "t", {"segment.bytes": "1000"})
            await configs.write_entity_config(world.store, "brokers", "<default>", {"message.max.bytes": "7"})
            await configs.write_entity_config(world.store, "brokers", "5", {"message.max.bytes": "9"})
            fifth, sixth = await world.broker(5), await world.broker(6)
            assert fifth.log_config("t").segment_bytes == 1000
            assert fifth.log_config("u").segment_bytes == 500
            assert (fifth.log_config("u").max_message_bytes, sixth.log_config("t").max_message_bytes) == (9, 7)
            assert fifth.settings.message_max_bytes == 9

    asyncio.run(run())


def test_every_broker_hears_of_a_topics_change() -> None:
    async def run() -> None:
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

    asyncio.run(run())


def test_brokers_hear_of_their_own_and_the_clusters_settings() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            other = await world.broker(1)
            heard: asyncio.Queue[BrokerSettings] = asyncio.Queue()
            other.on_broker_changed(heard.put_nowait)
            await world.settings.alter_broker(lambda _: {"max.connections": "5"}, per_broker=True, validate_only=False)
            await world.settings.alter_broker(lambda _: {"max.connections": "6"}, per_broker=False, validate_only=False)
            assert (await asyncio.wait_for(heard.get(), PATIENCE_S)).max_connections == 6
            assert world.settings.settings.max_connections == 5
            assert heard.empty()

    asyncio.run(run())


def test_a_change_missed_while_the_session_was_lost_is_read_at_the_next() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            lost = world.ensemble.connect()
            other = await world.broker(1, lost)
            heard: asyncio.Queue[int] = asyncio.Queue()
            other.on_topic_changed(lambda _topic, config: heard.put_nowait(config.segment_bytes))
            world.ensemble.expire(lost.session().session_id)
            await configs.write_entity_config(world.store, "topics", "t", {"segment.bytes": "3000"})
            assert await asyncio.wait_for(heard.get(), PATIENCE_S) == 3000

    asyncio.run(run())


def test_validate_only_changes_nothing() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            await world.settings.alter_topic("t", lambda _: {"segment.bytes": "1000"}, validate_only=True)
            await world.settings.alter_broker(lambda _: {"max.connections": "5"}, per_broker=True, validate_only=True)
            assert await world.settings.topic_settings("t") == {}
            assert world.settings.layers.dynamic_broker == {}
            assert await world.store.children("/config/changes") == []

    asyncio.run(run())


def test_a_refused_change_is_not_stored() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            with pytest.raises(ConfigError, match="at least 14"):
                await world.settings.alter_topic("t", lambda _: {"segment.bytes": "1"}, validate_only=False)
            with pytest.raises(PasswordsRefused):
                await world.settings.alter_broker(
                    lambda _: {"listener.name.a.ssl.key.password": "x"}, per_broker=True, validate_only=False
                )
            assert await configs.entity_config(world.store, "topics", "t") == {}
            assert await configs.entity_config(world.store, "brokers", "0") == {}

    asyncio.run(run())


def test_concurrent_changes_of_one_topic_are_both_kept() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            await asyncio.gather(
                *(
                    world.settings.alter_topic(
                        "t", lambda stored, name=name: {**stored, name: "1000"}, validate_only=False
                    )
                    for name in ("segment.bytes", "segment.ms", "retention.ms")
                )
            )
            assert (await world.settings.topic_settings("t")).keys() == {"segment.bytes", "segment.ms", "retention.ms"}

    asyncio.run(run())


def test_stored_values_that_cannot_be_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            topic = {"segment.bytes": "1", "from.the.future": "x", "segment.ms": "1000"}
            await configs.write_entity_config(world.store, "topics", "t", topic)
            broker = {"message.max.bytes": "-9", "max.connections": "5", "listener.name.a.ssl.key.password": "c1pher"}
            await configs.write_entity_config(world.store, "brokers", "1", broker)
            with caplog.at_level(logging.WARNING):
                other = await world.broker(1)
            assert other.log_config("t").segment_ms == 1000
            assert other.log_config("t").segment_bytes == 2**30
            assert other.layers.dynamic_broker == {"max.connections": "5"}

    asyncio.run(run())
    assert "segment.bytes" in caplog.text
    assert "message.max.bytes" in caplog.text
    assert "c1pher" not in caplog.text
