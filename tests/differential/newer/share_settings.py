"""Settings of share groups: those of a group (resource type GROUP), and those of the broker."""

from __future__ import annotations

from typing import Any

from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.differential.newer.group_configs import altering, describing, until_set
from tests.differential.play import Run, newer_case

BROKER = 4
OF_SHARE_GROUPS = ("group.share.", "share.")


def only_share_settings(answer: Any) -> None:
    for row in answer.results:
        row.configs = [config for config in row.configs if config.name.startswith(OF_SHARE_GROUPS)]


@newer_case(IncrementalAlterConfigsRequest, "1")
def of_a_share_group(run: Run) -> None:
    group = run.name("g")
    run.ask(
        altering(
            group,
            {
                "share.session.timeout.ms": "50000",
                "share.heartbeat.interval.ms": "6000",
                "share.record.lock.duration.ms": "20000",
                "share.delivery.count.limit": "7",
                "share.partition.max.record.locks": "3000",
                "share.isolation.level": "read_committed",
                "share.auto.offset.reset": "by_duration:PT1H",
                "share.renew.acknowledge.enable": "false",
            },
        )
    )
    until_set(run, group, "share.renew.acknowledge.enable", "false")
    run.ask(describing(group), 4, pick=only_share_settings)
    run.ask(altering(group, {"share.auto.offset.reset": None, "share.isolation.level": None}))
    until_set(run, group, "share.auto.offset.reset", "latest")
    run.ask(describing(group), 4, pick=only_share_settings)


@newer_case(IncrementalAlterConfigsRequest, "1")
def values_that_share_groups_cannot_have(run: Run) -> None:
    for number, settings in enumerate(
        (
            {"share.session.timeout.ms": "1"},
            {"share.session.timeout.ms": "60001"},
            {"share.heartbeat.interval.ms": "99"},
            {"share.heartbeat.interval.ms": "15001"},
            {"share.record.lock.duration.ms": "999"},
            {"share.record.lock.duration.ms": "60001"},
            {"share.delivery.count.limit": "1"},
            {"share.delivery.count.limit": "11"},
            {"share.partition.max.record.locks": "99"},
            {"share.partition.max.record.locks": "4001"},
            {"share.assignment.interval.ms": "15001"},
            {"share.isolation.level": "serializable"},
            {"share.isolation.level": "READ_COMMITTED"},
            {"share.auto.offset.reset": "none"},
            {"share.auto.offset.reset": "Latest"},
            {"share.auto.offset.reset": "by_duration"},
            {"share.auto.offset.reset": "by_duration:1h"},
            {"share.auto.offset.reset": "by_duration:PT-1H"},
            {"share.auto.offset.reset": ""},
            {"share.renew.acknowledge.enable": "yes"},
            {"share.session.timeout.ms": "5000", "share.heartbeat.interval.ms": "6000"},
        )
    ):
        run.ask(altering(run.name(f"g{number:02}"), settings))


@newer_case(DescribeConfigsRequest, "4")
def of_a_broker_with_share_groups(run: Run) -> None:
    def of_4_3(answer: Any) -> None:
        only_share_settings(answer)
        for row in answer.results:
            row.configs = [config for config in row.configs if config.name not in ONLY_OURS]
            for config in row.configs:
                if config.name == "group.share.max.size":
                    config.config_type = 0

    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
    run.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), pick=of_4_3)


ONLY_OURS = ("group.share.max.groups",)
"""Of 3.9.1."""
