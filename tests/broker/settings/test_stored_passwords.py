"""Dynamic passwords are encrypted in the store, in clear in memory, and shown to nobody."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from broker.handlers.configs.alter_configs import alter_configs
from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.configs.incremental_alter_configs import incremental_alter_configs
from broker.settings.dynamic_settings import DynamicSettings
from broker.settings.stored_passwords import PasswordsRefused, StoredPasswords, is_password
from config.broker import BrokerSettings
from config.errors import ConfigError
from metadata.store import configs
from protocol.errors import ErrorCode
from protocol.messages import alter_configs as alter
from protocol.messages import describe_configs as describe
from protocol.messages import incremental_alter_configs as incremental
from tests.broker.settings_world import SettingsWorld

KEY = "listener.name.a.ssl.key.password"
JAAS = "listener.name.a.plain.sasl.jaas.config"
SECRET = "s3cret-w0rd"  # what must be in no log and no answer
ENCODER = {"password.encoder.secret": "the-secret", "password.encoder.iterations": "1024", "broker.id": "0"}
BROKER = 4


async def alter_one(settings: DynamicSettings, changes: dict[str, str], *, per_broker: bool = True) -> None:
    await settings.alter_broker(lambda stored: {**stored, **changes}, per_broker=per_broker, validate_only=False)


def test_a_password_is_stored_encrypted_and_read_in_clear(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld(ENCODER) as world:
            heard: list[str | None] = []
            world.settings.on_broker_changed(lambda settings: heard.append(settings.given.get(KEY)))
            await alter_one(world.settings, {KEY: SECRET})
            assert world.settings.settings.given[KEY] == SECRET and heard == [SECRET]
            stored = (await configs.entity_config(world.store, "brokers", "0"))[KEY]
            assert SECRET not in stored and "encryptedPassword:" in stored
            await alter_one(world.settings, {"max.connections": "5", JAAS: "PlainLoginModule required;"})
            again = await configs.entity_config(world.store, "brokers", "0")
            assert again[KEY] == stored and "encryptedPassword:" in again[JAAS] and again["max.connections"] == "5"
            other = await world.broker(0)
            assert other.settings.given[KEY] == SECRET
            await alter_one(world.settings, {KEY: "another"})
            assert world.settings.settings.given[KEY] == "another"

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert SECRET not in caplog.text and "encryptedPassword" not in caplog.text


async def test_passwords_are_for_one_broker_only() -> None:
    async with SettingsWorld(ENCODER) as world:
        for name, error in ((KEY, "broker id must be specified"), ("own.ssl.key.password", "only at broker level")):
            with pytest.raises(ConfigError, match=error):
                await alter_one(world.settings, {name: SECRET}, per_broker=False)
        assert await configs.entity_config(world.store, "brokers", "<default>") == {}


def test_a_password_that_cannot_be_decrypted_stays_stored_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld(ENCODER) as world:
            await configs.alter_entity_config(
                world.store, "brokers", "0", {KEY: "rubbish-text", "max.connections": "5"}
            )
            await world.settings.catch_up()
            assert KEY not in world.settings.settings.given and world.settings.settings.max_connections == 5
            await alter_one(world.settings, {"max.connections": "6"})
            assert (await configs.entity_config(world.store, "brokers", "0"))[KEY] == "rubbish-text"
            await alter_one(world.settings, {KEY: SECRET})
            assert world.settings.settings.given[KEY] == SECRET

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "cannot be decrypted" in caplog.text and "rubbish-text" not in caplog.text


async def test_without_a_secret_passwords_are_refused() -> None:
    async with SettingsWorld() as world:
        with pytest.raises(PasswordsRefused, match="not configured"):
            await alter_one(world.settings, {KEY: SECRET})


def test_another_secret_encrypts_again_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with SettingsWorld(ENCODER) as world:
            await alter_one(world.settings, {KEY: SECRET, "max.connections": "5"})
            before = await configs.entity_config(world.store, "brokers", "0")
            changing = {
                **ENCODER, "password.encoder.secret": "newer", "password.encoder.old.secret": "the-secret",
                "password.encoder.cipher.algorithm": "AES/GCM/NoPadding",
            }  # fmt: skip
            for given, is_read in (
                (changing, True),
                (changing, True),
                ({**ENCODER, "password.encoder.secret": "newer"}, True),
                (ENCODER, False),
            ):
                world.static = BrokerSettings(given)
                started = await world.broker(0)
                assert (started.settings.given.get(KEY) == SECRET) is is_read
            after = await configs.entity_config(world.store, "brokers", "0")
            assert after[KEY] != before[KEY] and "AES/GCM" in after[KEY] and after["max.connections"] == "5"
            world.static = BrokerSettings(changing)
            await world.broker(0)
            assert await configs.entity_config(world.store, "brokers", "0") == after, (
                "the former secret reads none any more"
            )

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert caplog.text.count("passwords encrypted by the current secret") == 1 and SECRET not in caplog.text


async def test_a_check_refuses_a_change_before_it_is_stored() -> None:
    async with SettingsWorld(ENCODER) as world:

        def check(settings: BrokerSettings) -> None:
            if settings.given.get(KEY) == "wrong":
                raise ConfigError("Invalid dynamic configuration: the key cannot be read")

        world.settings.check_broker_changes(check)
        await alter_one(world.settings, {KEY: SECRET})
        for validate_only in (False, True):
            with pytest.raises(ConfigError, match="cannot be read"):
                await world.settings.alter_broker(
                    lambda _: {KEY: "wrong"}, per_broker=True, validate_only=validate_only
                )
        assert world.settings.settings.given[KEY] == SECRET


async def test_requests_change_passwords_and_no_answer_shows_them() -> None:
    async with SettingsWorld(ENCODER) as world:
        request = incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=BROKER,
                    resource_name=name,
                    configs=[incremental.AlterableConfig(name=KEY, config_operation=0, value=SECRET)],
                )
                for name in ("0", "")
            ],
            validate_only=False,
        )
        answer = await incremental_alter_configs(request, world.context(1))
        assert [row.error_code for row in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        shown = await describe_configs(
            describe.DescribeConfigsRequest(
                resources=[
                    describe.DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
                ],
                include_synonyms=True,
                include_documentation=True,
            ),
            world.context(4),
        )
        encoded = shown.encode(4)
        assert KEY.encode() in encoded and SECRET.encode() not in encoded and b"the-secret" not in encoded
        (result,) = type(shown).decode(encoded, 4).results
        (row,) = [config for config in result.configs if config.name == KEY]
        assert (row.value, row.is_sensitive, row.config_source) == (None, True, 2)
        assert [synonym.value for synonym in row.synonyms] == [None]
        whole = alter.AlterConfigsRequest(
            resources=[
                alter.AlterConfigsResource(
                    resource_type=BROKER, resource_name="0", configs=[alter.AlterableConfig(name=JAAS, value=SECRET)]
                )
            ],
            validate_only=False,
        )
        assert (await alter_configs(whole, world.context(2))).responses[0].error_code == ErrorCode.NONE
        assert world.settings.layers.dynamic_broker == {JAAS: SECRET}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (KEY, True), (JAAS, True), ("sasl.jaas.config", True), ("own.sasl.jaas.config", True), ("max.connections", False),
        ("listener.name.a.ssl.keystore.certificate.chain", True), ("listener.name.a.ssl.keystore.type", False),
    ],
)  # fmt: skip
def test_which_settings_are_passwords(name: str, is_one: bool) -> None:
    assert is_password(name) is is_one


@pytest.mark.parametrize(
    "given",
    [
        {"password.encoder.cipher.algorithm": "DES/CBC/PKCS5Padding"},
        {"password.encoder.keyfactory.algorithm": "PBEWithMD5AndDES"},
        {"password.encoder.key.length": "56"},
    ],
)
def test_algorithms_that_are_not_supported_prevent_the_start(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"password\.encoder\.\*: "):
        StoredPasswords.of(BrokerSettings({**ENCODER, **given}), random.Random(1))
