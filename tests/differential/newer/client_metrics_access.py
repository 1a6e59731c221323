"""Who may do what with client metrics: subscriptions belong to the cluster, and everybody may push."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.primitives import ZERO_UUID
from security.access import Operation
from tests.differential.newer.client_metrics import CLIENT_METRICS, INTERVAL, OF_NOBODY, altering, describing
from tests.differential.play import NEWER_SECURED, Run
from tests.differential.secured import check, numbered, on_cluster

_check = partial(check, stage=NEWER_SECURED, about="who may do it with client metrics")
SITUATIONS = {
    "may alter settings": on_cluster(Operation.ALTER_CONFIGS),
    "may describe settings": on_cluster(Operation.DESCRIBE_CONFIGS),
    "may alter the cluster": on_cluster(Operation.ALTER),
}


def _subscription(run: Run) -> str:
    return run.name(numbered(run, "s"))


def _replacing(run: Run, _: Any) -> AlterConfigsRequest:
    rows = [AlterableConfig(name=INTERVAL, value="1000"), AlterableConfig(name="match", value=OF_NOBODY["match"])]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=_subscription(run), configs=rows)
    return AlterConfigsRequest(resources=[resource], validate_only=False)


def _nobodys(run: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        answer.config_resources = [row for row in answer.config_resources if row.resource_name.startswith(run.prefix)]

    return pick


def _without_ids(_: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        answer.client_instance_id, answer.subscription_id = b"\1" * 16, 0

    return pick


_check(
    IncrementalAlterConfigsRequest,
    lambda run, _: altering(_subscription(run), {INTERVAL: "1000", **OF_NOBODY}),
    SITUATIONS,
    "1",
)
_check(AlterConfigsRequest, _replacing, SITUATIONS, "2")
_check(DescribeConfigsRequest, lambda run, _: describing(run.name("s")), SITUATIONS, "4")
_check(
    ListConfigResourcesRequest,
    lambda run, _: ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]),
    SITUATIONS,
    pick=_nobodys,
)
_check(
    GetTelemetrySubscriptionsRequest,
    lambda run, _: GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID),
    SITUATIONS,
    pick=_without_ids,
)
_check(
    PushTelemetryRequest,
    lambda run, _: PushTelemetryRequest(
        client_instance_id=bytes([2] * 15 + [len(run.answers)]),
        subscription_id=1,
        terminating=False,
        compression_type=0,
        metrics=b"",
    ),
    {},
)
