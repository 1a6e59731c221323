"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs when the store does not answer, or holds what cannot be.

And answers of Apache Kafka 3.9.1 that no case of `tests/differential` brings about.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers.configs.alter_configs import alter_configs
from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.configs.incremental_alter_configs import incremental_alter_configs
from broker.network.routes import Handler
from metadata.store import configs
from metadata.store.port import AccessDeniedError, ConnectionLossError, SessionExpiredError, StoreError
from protocol.errors import ErrorCode
from protocol.messages import alter_configs as alter
from protocol.messages import incremental_alter_configs as incremental
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.schema import Request
from tests.broker.settings_world import SettingsWorld

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
Resource = tuple[int, str]


async def asked(world: SettingsWorld, handler: Handler[Any], *named: Resource, **settings: Any) -> list[Any]:
    """Return the rows for these resources, of which the settings are described or altered."""
    if handler is describe_configs:
        described = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in named
        ]
        response = await handler(DescribeConfigsRequest(resources=described), world.context(1))
        return list(response.results)
    request: Request
    if handler is alter_configs:
        given = [alter.AlterableConfig(name=name, value=value) for name, value in settings.items()]
        request = alter.AlterConfigsRequest(
            resources=[
                alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
                for kind, name in named
            ],
            validate_only=False,
        )
    else:
        changed = [
            incremental.AlterableConfig(name=name, config_operation=operation, value="x")
            for name, operation in settings.items()
        ]
        request = incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changed)
                for kind, name in named
            ],
            validate_only=False,
        )
    return list((await handler(request, world.context(1))).responses)


NO_METRICS = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"


@pytest.mark.parametrize(
    ("handler", "resource", "settings", "text"),
    [
        (describe_configs, (CLIENT_METRICS, ""), {}, "Client metrics subscription name must not be empty"),
        (describe_configs, (CLIENT_METRICS, "x"), {}, "Config type client-metrics is only supported on KRaft clusters"),
        (describe_configs, (BROKER_LOGGER, ""), {}, "Broker id must not be empty"),
        (alter_configs, (CLIENT_METRICS, "0"), {}, NO_METRICS),
        (incremental_alter_configs, (CLIENT_METRICS, "0"), {}, NO_METRICS),
        (incremental_alter_configs, (BROKER_LOGGER, "0"), {"root": 9}, "Unknown operation 9"),
        (alter_configs, (BROKER, ""), {"log.retention.ms": "100000"}, None),
    ],
)
async def test_what_there_is_not_is_refused_in_the_words_of_kafka(
    handler: Handler[Any], resource: Resource, settings: dict[str, Any], text: str | None
) -> None:
    async with SettingsWorld() as world:
        [row] = await asked(world, handler, resource, **settings)
        assert row.error_code == (ErrorCode.NONE if text is None else ErrorCode.INVALID_REQUEST)
        assert (text or "") in (row.error_message or "")


async def test_a_stored_value_that_cannot_be_hides_no_other() -> None:
    """Another release may have written it: kafka-topics asks for all topics at once."""
    async with SettingsWorld() as world:
        stored = {"segment.bytes": "1", "retention.ms": "5", "from.the.future": "x"}
        await configs.write_entity_config(world.store, "topics", "t", stored)
        names = ["segment.bytes", "retention.ms"]
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=names)
            for name in ("t", "u")
        ]
        response = await describe_configs(DescribeConfigsRequest(resources=resources), world.context(4))
        results = type(response).decode(response.encode(4), 4).results
        assert [row.error_code for row in results] == [0, 0]
        shown = {each.name: (each.value, each.config_source) for each in results[0].configs}
        assert shown == {"segment.bytes": ("1073741824", 5), "retention.ms": ("5", 1)}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionLossError("/config"), ErrorCode.REQUEST_TIMED_OUT),
        (SessionExpiredError("/config"), ErrorCode.REQUEST_TIMED_OUT),
        (AccessDeniedError("/config"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("handler", [describe_configs, alter_configs, incremental_alter_configs])
async def test_what_the_store_does_not_do_is_answered(
    handler: Handler[Any], error: StoreError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> dict[str, str]:
        raise error

    async with SettingsWorld() as world:
        monkeypatch.setattr(configs, "entity_config", fail)
        named = [(TOPIC, "t")] if handler is describe_configs else [(TOPIC, "t"), (BROKER, "0")]
        rows = await asked(world, handler, *named)
        assert [row.error_code for row in rows] == [code] * len(named)
