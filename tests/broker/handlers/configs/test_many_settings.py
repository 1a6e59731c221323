"""Settings of thousands of topics in one answer: the one that Apache Kafka's tools ask for, and its bound."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.topics.create_topics import create_topics
from broker.network.routes import Handler, Route
from config.topic import LogConfig
from metadata.store import configs
from metadata.store.port import AccessDeniedError, ConnectionLossError, Store, StoreError
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.primitives import Encoded
from tests.async_tests import played_by, simulated
from tests.broker.handlers.ask import context_of, on_a_broker
from tests.broker.handlers.test_long_answers import check, many_topics, names
from tests.broker.settings_world import SettingsWorld
from tests.controller.harness import PATIENCE_MS, Member
from tests.doubles.clock import ManualClock
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

TOPICS = 3_000
TOPIC, BROKER = 2, 4


def limit(monkeypatch: pytest.MonkeyPatch, handler: Handler[Any], **constants: int) -> None:
    """The name of a handler's module is that of its handler."""
    for name, value in constants.items():
        monkeypatch.setattr(sys.modules[handler.function.__module__], name, value)


def request_for(
    *wanted: str, keys: list[str] | None = None, with_all: bool = False, resource_type: int = TOPIC
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
            for name in wanted
        ],
        include_synonyms=with_all,
        include_documentation=with_all,
    )


async def described(world: SettingsWorld, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
    """As the client decodes it."""
    answer = await describe_configs(request, world.context(version))
    return DescribeConfigsResponse.decode(answer.encode(version), version, max_elements=10_000_000)


@pytest.mark.parametrize(("version", "with_all"), [(0, False), (1, False), (4, False), (4, True)])
async def test_all_topics_are_described_as_each_is_alone(version: int, with_all: bool) -> None:
    own = {7: {"retention.ms": "5"}, 1_000: {"cleanup.policy": "compact"}, 2_999: {"retention.ms": "5"}}
    topics = tuple(names(TOPICS))
    async with SettingsWorld(topics=topics, clock=ManualClock()) as world:
        for number, settings in own.items():
            await configs.write_entity_config(world.store, "topics", topics[number], settings)
        alone: dict[int, DescribeConfigsResult] = {}
        for number in (0, *own):
            [alone[number]] = (await described(world, request_for(topics[number], with_all=with_all), version)).results
            assert len(alone[number].configs) == len(LogConfig.definitions)
        assert alone[0].configs != alone[7].configs == alone[2_999].configs != alone[1_000].configs
        together = await described(world, request_for(*topics, with_all=with_all), version)
        assert [row.resource_name for row in together.results] == list(topics)
        assert {row.error_code for row in together.results} == {ErrorCode.NONE}
        for number, row in enumerate(together.results):
            assert row.configs == alone[number if number in own else 0].configs


@simulated(1)
async def test_settings_of_many_topics_are_read_together(loop: SimLoop) -> None:
    """The store is 10 ms away, in each direction: one by one, it would be a minute."""
    topics = tuple(names(TOPICS))
    async with SettingsWorld(topics=topics, clock=SimClock(loop)) as world:
        await configs.write_entity_config(world.store, "topics", topics[-1], {"retention.ms": "5"})
        world.ensemble.latency_s = lambda: 0.01
        before_s = loop.time()
        answer = await described(world, request_for(*topics, keys=["retention.ms"]), 4)
        assert loop.time() - before_s < 1
        assert [row.error_code for row in answer.results] == [ErrorCode.NONE] * TOPICS
        assert [config.value for config in answer.results[-1].configs] == ["5"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (AccessDeniedError("/config"), [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]),
        (ConnectionLossError("/config"), [ErrorCode.REQUEST_TIMED_OUT] * 3),
    ],
)
async def test_what_the_store_holds_back_fails_alone_and_its_silence_is_asked_for_once(
    error: StoreError, codes: list[ErrorCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = configs.entity_config

    async def fail(*_: object) -> dict[str, dict[str, str]]:
        raise error

    async def read_others(store: Store, entity_type: str, name: str) -> dict[str, str]:
        if name == "u":
            raise error
        return await read(store, entity_type, name)

    async with SettingsWorld(topics=("t", "u", "v"), clock=ManualClock()) as world:
        monkeypatch.setattr(configs, "named_configs", fail)
        monkeypatch.setattr(configs, "entity_config", read_others)
        answer = await described(world, request_for("t", "u", "v"), 4)
        assert [row.error_code for row in answer.results] == codes


async def test_others_run_while_topics_that_are_all_different_are_described() -> None:
    topics = tuple(names(1_100))
    async with SettingsWorld(topics=topics, clock=ManualClock()) as world:
        for number, topic in enumerate(topics):
            await configs.write_entity_config(world.store, "topics", topic, {"retention.ms": str(number)})
        answer = await check(describe_configs, lambda: request_for(*topics), world.context(4), rows=len(topics))
        assert all(isinstance(row.configs, Encoded) for row in answer.results)  # nothing is left to the end


async def test_a_choice_of_settings_is_one_of_every_resource() -> None:
    async with SettingsWorld(topics=("t", "u"), clock=ManualClock()) as world:
        for keys, count in ((["retention.ms", "segment.bytes", "gone"], 2), ([], len(LogConfig.definitions))):
            answer = await described(world, request_for("t", "u", keys=keys), 4)
            assert [len(row.configs) for row in answer.results] == [count] * 2


async def test_more_kinds_of_topics_than_keep_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, describe_configs, KEPT_KINDS=2)
    topics = tuple(names(7))
    async with SettingsWorld(topics=topics, clock=ManualClock()) as world:
        for number, topic in enumerate(topics):
            await configs.write_entity_config(world.store, "topics", topic, {"retention.ms": str(number)})
        answer = await described(world, request_for(*topics, keys=["retention.ms"]), 4)
        values = [[config.value for config in row.configs] for row in answer.results]  # type: ignore[union-attr]
        assert values == [[str(number)] for number in range(7)]


async def test_so_many_bytes_are_described_and_what_is_behind_them_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, describe_configs, MAX_SETTINGS_BYTES=20_000)
    async with SettingsWorld(topics=tuple(names(20)), clock=ManualClock()) as world:
        for request in (request_for(*names(20)), request_for(*["0"] * 20, resource_type=BROKER)):
            answer = await describe_configs(request, world.context(4))
            told = [row for row in answer.results if row.error_code == ErrorCode.NONE]
            sizes = [len(row.configs) for row in told]
            assert sum(sizes[:-1]) <= 20_000 < sum(sizes)
            refused = answer.results[len(told) :]
            assert {row.error_code for row in refused} == {ErrorCode.INVALID_REQUEST}


def test_a_request_for_ten_thousand_topics_is_none_too_large() -> None:
    """Names as long as they may be, and one setting named of each."""
    topics = [f"{number:0249}" for number in range(10_000)]
    for version in range(5):
        request = request_for(*topics, keys=["retention.ms"])
        wire = request.encode(version)
        route = Route(describe_configs, version)
        budget = 500_000 // route.element_cost
        assert DescribeConfigsRequest.decode(wire, version, max_elements=budget) == request


@played_by(on_a_broker, "tmp_path")
async def test_effective_settings_are_told_of_so_many_topics_and_the_others_are_created_all_the_same(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = CreateTopicsRequest(topics=many_topics(1_000), timeout_ms=PATIENCE_MS, validate_only=True)
    answer = await create_topics(request, context_of(member, 7))
    rows = type(answer).decode(answer.encode(7), 7).topics
    assert {len(row.configs or ()) for row in rows} == {len(LogConfig.definitions)}
    assert {(row.error_code, row.topic_config_error_code) for row in rows} == {(ErrorCode.NONE, ErrorCode.NONE)}

    limit(monkeypatch, create_topics, MAX_SETTINGS_BYTES=20_000)
    rows = (await create_topics(request, context_of(member, 7))).topics
    assert {row.error_code for row in rows} == {ErrorCode.NONE}
    told = [row for row in rows if row.configs]
    sizes = [len(row.configs or ()) for row in told]
    assert sum(sizes[:-1]) <= 20_000 < sum(sizes)
    assert {row.topic_config_error_code for row in told} == {ErrorCode.NONE}
    others = rows[len(told) :]
    assert {row.topic_config_error_code for row in others} == {ErrorCode.INVALID_REQUEST}
    assert {(row.num_partitions, row.replication_factor) for row in others} == {(1, 1)}
