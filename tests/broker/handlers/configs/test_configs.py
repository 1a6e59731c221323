"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs against the answers of Apache Kafka 3.9.1.

`configs-3.9.1.jsonl` holds a conversation with a fresh broker, in order; it is replayed here, so that every answer also
depends on the changes before it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.configs.alter_configs import alter_configs
from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.configs.incremental_alter_configs import incremental_alter_configs
from config.broker import BrokerSettings
from config.broker.barnabas import OwnSettings
from metadata.store import configs
from metadata.store.port import AccessDeniedError, ConnectionLossError, SessionExpiredError, StoreError
from protocol.messages import alter_configs as alter
from protocol.messages import describe_configs as describe
from protocol.messages import incremental_alter_configs as incremental
from protocol.schema import Message
from tests.broker.settings_world import SettingsWorld

HEAD, *EXCHANGES = map(json.loads, (Path(__file__).parent / "configs-3.9.1.jsonl").read_text().splitlines())
BROKER_LOGGER = 8
UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, INVALID_REQUEST = -1, 7, 42
# What depends on where and how that broker was started.
STARTED_WITH = {
    *("listeners", "log.dirs", "zookeeper.connect", "zookeeper.session.timeout.ms"),
    *(name for name in BrokerSettings.definitions if name.startswith(("offsets.topic.", "transaction.state.log."))),
    *("group.initial.rebalance.delay.ms",),
}
# Differences on purpose: default values of our own, and the words of two refusals.
OWN_DEFAULTS = {name for name, row in BrokerSettings.definitions.items() if row.default != row.kafka_default}
OTHER_WORDS = ("This most likely occurs", "These security configs")


def _request(exchange: dict[str, Any]) -> Message:
    body = exchange["request"]
    if exchange["api"] == "DescribeConfigs":
        return describe.DescribeConfigsRequest(
            resources=[
                describe.DescribeConfigsResource(resource_type=type_, resource_name=name, configuration_keys=keys)
                for type_, name, keys in body["resources"]
            ],
            include_synonyms=body["synonyms"] and exchange["version"] >= 1,
            include_documentation=body["documentation"],
        )
    if exchange["api"] == "AlterConfigs":
        return alter.AlterConfigsRequest(
            resources=[
                alter.AlterConfigsResource(
                    resource_type=type_,
                    resource_name=name,
                    configs=[alter.AlterableConfig(name=config, value=value) for config, value in entries],
                )
                for type_, name, entries in body["resources"]
            ],
            validate_only=body["validate_only"],
        )
    return incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=type_,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=config, config_operation=operation, value=value)
                    for config, operation, value in entries
                ],
            )
            for type_, name, entries in body["resources"]
        ],
        validate_only=body["validate_only"],
    )


HANDLERS = {
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs,
}


async def _ask(world: SettingsWorld, exchange: dict[str, Any]) -> Any:
    version = exchange["version"]
    request = _request(exchange)
    decoded = type(request).decode(request.encode(version), version)
    response = await HANDLERS[exchange["api"]](decoded, world.context(version))
    return _plain(type(response).decode(response.encode(version), version))


def _plain(message: Message) -> dict[str, Any]:
    values = {field.name: getattr(message, field.name) for field in message.__fields__}
    return {
        name: [_plain(item) if isinstance(item, Message) else item for item in value]
        if isinstance(value, list)
        else value
        for name, value in values.items()
    }


def _rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer without what differs on purpose; settings by name."""
    rows = []
    for row in answer.get("results", answer.get("responses")):
        row = dict(row)
        if row["error_code"] == UNKNOWN_SERVER_ERROR:
            row["error_code"] = INVALID_REQUEST
        if row["error_code"] == INVALID_REQUEST and (row["error_message"] or "").startswith(
            ("Unknown config name", "Unknown operation", "The request is malformed", *OTHER_WORDS)
        ):
            row["error_message"] = None
        if "configs" in row:
            configs = {}
            for config in row["configs"]:
                config.pop("documentation", None)
                if config["name"] not in STARTED_WITH | OWN_DEFAULTS | OwnSettings.definitions.keys():
                    configs[config["name"]] = config
            row["configs"] = configs
        rows.append(row)
    return rows


def test_answers_are_those_of_apache_kafka() -> None:
    async def run() -> None:
        async with SettingsWorld({**HEAD["settings"], "broker.id": "0"}) as world:
            compared = 0
            for exchange in EXCHANGES:
                if any(resource[0] == BROKER_LOGGER for resource in exchange["request"]["resources"]):
                    continue  # other loggers: see below
                ours = await _ask(world, exchange)
                assert _rows(ours) == _rows(exchange["answer"]), exchange["request"]
                compared += 1
            assert compared > 100

    asyncio.run(run())


def test_a_resource_named_twice_in_alter_configs_is_refused() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            twice = [[2, "t", []], [2, "t", []]]
            body = {"resources": twice, "validate_only": False}
            answer = await _ask(world, {"api": "AlterConfigs", "version": 2, "request": body})
            assert [row["error_code"] for row in answer["responses"]] == [INVALID_REQUEST] * 2

    asyncio.run(run())


def test_documentation_only_when_asked() -> None:
    async def run() -> None:
        async with SettingsWorld() as world:
            for asked in (True, False):
                body = {"resources": [[2, "t", ["segment.bytes"]]], "synonyms": False, "documentation": asked}
                answer = await _ask(world, {"api": "DescribeConfigs", "version": 3, "request": body})
                (config,) = answer["results"][0]["configs"]
                assert (config["documentation"] is not None) == asked

    asyncio.run(run())


def test_a_stored_value_that_cannot_be_hides_no_other() -> None:
    """Another release may have written it: kafka-topics asks for all topics at once."""

    async def run() -> None:
        async with SettingsWorld() as world:
            stored = {"segment.bytes": "1", "retention.ms": "5", "from.the.future": "x"}
            await configs.write_entity_config(world.store, "topics", "t", stored)
            names = ["segment.bytes", "retention.ms"]
            body = {"resources": [[2, "t", names], [2, "u", names]], "synonyms": False, "documentation": False}
            answer = await _ask(world, {"api": "DescribeConfigs", "version": 4, "request": body})
            assert [row["error_code"] for row in answer["results"]] == [0, 0]
            shown = {
                config["name"]: (config["value"], config["config_source"]) for config in answer["results"][0]["configs"]
            }
            assert shown == {"segment.bytes": ("1073741824", 5), "retention.ms": ("5", 1)}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionLossError("/config"), REQUEST_TIMED_OUT),
        (SessionExpiredError("/config"), REQUEST_TIMED_OUT),
        (AccessDeniedError("/config"), UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("api", HANDLERS)
def test_what_the_store_does_not_do_is_answered(
    api: str, error: StoreError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> dict[str, str]:
        raise error

    async def run() -> None:
        async with SettingsWorld() as world:
            monkeypatch.setattr(configs, "entity_config", fail)
            described = {"resources": [[2, "t", None]], "synonyms": False, "documentation": False}
            altered = {"resources": [[2, "t", []], [4, "0", []]], "validate_only": False}
            body = described if api == "DescribeConfigs" else altered
            answer = await _ask(world, {"api": api, "version": 1, "request": body})
            rows = answer.get("results", answer.get("responses"))
            assert [row["error_code"] for row in rows] == [code] * len(rows)

    asyncio.run(run())


# --- loggers ---


@pytest.fixture
def logger_name() -> Iterator[str]:
    name = "tests.broker.handlers.some_logger"
    yield name
    logging.getLogger(name).setLevel(logging.NOTSET)


SET, DELETE, APPEND = 0, 1, 2


@pytest.mark.parametrize(
    ("operation", "name", "level", "error", "message"),
    [
        (SET, None, "DEBUG", 0, None),
        (
            SET,
            None,
            "LOUD",
            40,
            "not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (SET, "no.such.logger", "DEBUG", 40, "Logger no.such.logger does not exist!"),
        (DELETE, "no.such.logger", None, 40, "Logger no.such.logger does not exist!"),
        (APPEND, None, "DEBUG", 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (DELETE, "root", None, 42, "Removing the log level of the root logger is not allowed"),
        (9, None, "DEBUG", 42, "Unknown operation 9"),
    ],
)
def test_logger_levels(  # one row a rule
    logger_name: str, operation: int, name: str | None, level: str | None, error: int, message: str | None
) -> None:
    logger = logging.getLogger(logger_name)
    before = logger.level

    async def run() -> None:
        async with SettingsWorld() as world:
            body = {
                "resources": [[BROKER_LOGGER, "0", [[name or logger_name, operation, level]]]],
                "validate_only": False,
            }
            answer = await _ask(world, {"api": "IncrementalAlterConfigs", "version": 1, "request": body})
            (row,) = answer["responses"]
            assert row["error_code"] == error
            assert (message or "") in (row["error_message"] or "")

    asyncio.run(run())
    assert logger.level == (logging.DEBUG if error == 0 else before)


def test_logger_levels_are_described_and_unset(logger_name: str) -> None:
    logging.getLogger(logger_name).setLevel(logging.ERROR)

    async def run() -> None:
        async with SettingsWorld() as world:
            seen = []
            for _ in range(2):
                body = {"resources": [[BROKER_LOGGER, "0", [logger_name]]], "synonyms": True, "documentation": False}
                answer = await _ask(world, {"api": "DescribeConfigs", "version": 4, "request": body})
                (config,) = answer["results"][0]["configs"]
                seen.append((config["value"], config["config_source"], config["read_only"]))
                body = {"resources": [[BROKER_LOGGER, "0", [[logger_name, DELETE, None]]]], "validate_only": False}
                await _ask(world, {"api": "IncrementalAlterConfigs", "version": 1, "request": body})
            assert seen[0] == ("ERROR", 6, False)
            assert seen[1][0] != "ERROR"

    asyncio.run(run())


@pytest.mark.parametrize("name", ["", "x", "5"])
def test_loggers_of_another_broker_are_refused(name: str) -> None:
    recorded = next(
        exchange
        for exchange in EXCHANGES
        if exchange["api"] == "DescribeConfigs"
        and exchange["request"]["resources"][:1] == [[BROKER_LOGGER, name, None]]
    )

    async def run() -> None:
        async with SettingsWorld() as world:
            assert _rows(await _ask(world, recorded)) == _rows(recorded["answer"])

    asyncio.run(run())
