"""Settings of groups: IncrementalAlterConfigs, DescribeConfigs and ListConfigResources with the resource type GROUP."""

from __future__ import annotations

from typing import Any

from protocol.messages.alter_configs import AlterableConfig as SetConfig
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as SetResource
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.differential.newer.consumer_groups import Member, group_that_knows, joining
from tests.differential.play import Run, newer_case

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
PREFIX = "consumer."
"""Settings of the kind of group that is compared."""


def altering(group: str, settings: dict[str, str | None], operation: int = SET) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=name, config_operation=DELETE if value is None else operation, value=value)
        for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def describing(*groups: str, keys: list[str] | None = None) -> DescribeConfigsRequest:
    rows = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=keys) for name in groups
    ]
    return DescribeConfigsRequest(resources=rows, include_synonyms=True)


def only_consumer_settings(answer: Any) -> None:
    for row in answer.results:
        row.configs = [config for config in row.configs if config.name.startswith(PREFIX)]


def altered(run: Run, group: str, settings: dict[str, str | None]) -> None:
    """Set them, and wait until the coordinator has them."""
    (row,) = run.do(altering(group, settings)).responses
    assert row.error_code == 0, row
    for name, value in settings.items():
        assert value is not None
        until_set(run, group, name, value)


def until_set(run: Run, group: str, name: str, value: str) -> None:
    def is_set() -> bool:
        (row,) = run.do(describing(group, keys=[name])).results
        return bool(row.configs and row.configs[0].value == value)

    run.until(f"{name} is {value}", is_set)


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def of_a_group(run: Run) -> None:
    group = run.name("g")
    run.ask(altering(group, {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}))
    until_set(run, group, "consumer.heartbeat.interval.ms", "6000")
    run.ask(describing(group), 4, pick=only_consumer_settings)
    run.ask(altering(group, {"consumer.session.timeout.ms": None}))
    until_set(run, group, "consumer.session.timeout.ms", "45000")
    run.ask(describing(group), 4, pick=only_consumer_settings)


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def values_that_groups_cannot_have(run: Run) -> None:
    for number, settings in enumerate(
        (
            {"consumer.session.timeout.ms": "1"},
            {"consumer.session.timeout.ms": "60001"},
            {"consumer.session.timeout.ms": "many"},
            {"consumer.heartbeat.interval.ms": "99"},
            {"consumer.heartbeat.interval.ms": "15001"},
            {"consumer.assignment.interval.ms": "-1"},
            {"consumer.assignment.interval.ms": "15001"},
            {"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "6000"},
            {"nobody.knows": "1"},
            {},
        )
    ):
        run.ask(altering(run.name(f"g{number}"), settings))
    run.ask(altering("", {"consumer.session.timeout.ms": "50000"}))
    run.ask(altering(run.name("g"), {"consumer.session.timeout.ms": "50000"}, APPEND))


@newer_case(AlterConfigsRequest, "0-2")
def all_settings_of_a_group(run: Run) -> None:
    group = run.name("g")
    resource = SetResource(
        resource_type=GROUP, resource_name=group, configs=[SetConfig(name="consumer.session.timeout.ms", value="50000")]
    )
    run.ask(AlterConfigsRequest(resources=[resource], validate_only=False))
    until_set(run, group, "consumer.session.timeout.ms", "50000")
    run.ask(describing(group), 4, pick=only_consumer_settings)


@newer_case(DescribeConfigsRequest, "1-4")
def of_groups(run: Run) -> None:
    run.ask(describing(run.name("g")), pick=only_consumer_settings)
    run.ask(describing(run.name("g"), keys=["consumer.session.timeout.ms", "nobody.knows"]))
    run.ask(describing(""), pick=only_consumer_settings)


@newer_case(ListConfigResourcesRequest)
def of_groups_and_others(run: Run) -> None:
    def mine(answer: Any) -> None:
        answer.config_resources = [
            row
            for row in answer.config_resources
            if row.resource_name.startswith(run.prefix) or row.resource_name == "0"
        ]

    topic, group = run.topic("t"), run.name("g")
    altered(run, group, {"consumer.session.timeout.ms": "50000"})
    for kinds in ([], [GROUP], [2], [4], [8], [16], [GROUP, 2], [0], [1], [99]):
        run.ask(ListConfigResourcesRequest(resource_types=kinds), pick=mine)
    assert topic


@newer_case(ConsumerGroupHeartbeatRequest)
def the_interval_that_the_group_has(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    altered(run, group, {"consumer.heartbeat.interval.ms": "200"})
    run.ask(joining(group, run.name("m"), topic))


@newer_case(ConsumerGroupHeartbeatRequest)
def a_member_that_is_silent_for_too_long(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    altered(run, group, {"consumer.heartbeat.interval.ms": "100", "consumer.session.timeout.ms": "400"})
    silent = Member(run, group, "m1", topic)
    silent.do()
    other = Member(run, group, "m2", topic)
    run.until("the other has everything", lambda: other.do() and other.owned == {run.last_topic_id: [0, 1]})
    run.ask(silent.request())
    run.note({"epoch of the other": other.epoch})
