"""Subscriptions of client metrics: resources of the type CLIENT_METRICS, and what clients are told and may push."""

from __future__ import annotations

import hashlib
from functools import partial
from types import TracebackType
from typing import Any, Self

from protocol.messages.alter_configs import AlterableConfig as SetConfig
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as SetResource
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.primitives import ZERO_UUID
from protocol.records.compression import Compression, compress
from tests.differential.play import Run, newer_case
from tests.differential.wire import Wire
from tests.doubles.otlp import counter, gauge, pushed

CLIENT_METRICS = 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
RATE = "org.apache.kafka.producer.record.send.rate"
MAX_BYTES = 1024 * 1024
OF_NOBODY: dict[str, str | None] = {MATCH: "client_id=nobody"}
"""What keeps a subscription away from the clients of other cases."""


def altering(name: str, settings: dict[str, str | None], operation: int = SET) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else operation, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def describing(*names: str, keys: list[str] | None = None) -> DescribeConfigsRequest:
    rows = [
        DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=keys)
        for name in names
    ]
    return DescribeConfigsRequest(resources=rows, include_synonyms=True, include_documentation=True)


def until_set(run: Run, name: str, key: str, value: str) -> None:
    def is_set() -> bool:
        (row,) = run.do(describing(name, keys=[key])).results
        return bool(row.configs and row.configs[0].value == value)

    run.until(f"{key} is {value}", is_set)


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def of_a_subscription(run: Run) -> None:
    name = run.name("s")
    run.ask(altering(name, {METRICS: "org.a.,org.b.", INTERVAL: "1000", **OF_NOBODY}))
    until_set(run, name, INTERVAL, "1000")
    run.ask(describing(name), 4)
    run.ask(altering(name, {METRICS: "org.c.,org.a."}, APPEND))
    run.ask(altering(name, {INTERVAL: None}))
    until_set(run, name, INTERVAL, "300000")
    run.ask(describing(name), 4)
    run.ask(altering(name, {METRICS: None, MATCH: None}))
    until_set(run, name, METRICS, "")
    run.ask(describing(name), 4)
    run.ask(altering(name, {METRICS: None}))


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def values_that_subscriptions_cannot_have(run: Run) -> None:
    for number, settings in enumerate(
        (
            {INTERVAL: "99"},
            {INTERVAL: "3600001"},
            {INTERVAL: "many"},
            {INTERVAL: ""},
            {MATCH: "client_id"},
            {MATCH: "nobody_knows=1"},
            {MATCH: "client_id=["},
            {MATCH: "client_id=a=b"},
            {MATCH: "client_id="},
            {MATCH: "=a"},
            {MATCH: "client_id=a,client_id=a"},
            {MATCH: ","},
            {METRICS: "a,a", **OF_NOBODY},
            {METRICS: "a,,b", **OF_NOBODY},
            {METRICS: "nobody,"},
            {"nobody.knows": "1"},
            {},
        )
    ):
        run.ask(altering(run.name(f"s{number}"), settings))
    run.ask(altering("", {INTERVAL: "1000"}))
    run.do(altering(run.name("s12"), {METRICS: None, MATCH: None}))
    run.ask(altering(run.name("s"), {INTERVAL: "1000"}, APPEND))
    run.ask(altering(run.name("s"), {"nobody.knows": "1000"}, APPEND))
    run.ask(altering(run.name("s"), {METRICS: "a,b"}, SUBTRACT))


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def names_of_subscriptions(run: Run) -> None:
    for number, name in enumerate(("a b", "a/b", "ä", "..", "x" * 300, "a%2Fb")):
        run.ask(altering(run.name(name), {INTERVAL: "1000", **OF_NOBODY}))
        until_set(run, run.name(name), INTERVAL, "1000")
        run.note({"number": number})


@newer_case(AlterConfigsRequest, "0-2")
def all_settings_of_a_subscription(run: Run) -> None:
    name = run.name("s")
    for settings in ({INTERVAL: "1000", **OF_NOBODY}, {METRICS: "org.", **OF_NOBODY}, {INTERVAL: "1"}, {"nope": "1"}):
        configs = [SetConfig(name=key, value=value) for key, value in settings.items()]
        resource = SetResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
        run.ask(AlterConfigsRequest(resources=[resource], validate_only=False))
    until_set(run, name, METRICS, "org.")
    run.ask(describing(name), 4)


@newer_case(DescribeConfigsRequest, "1-4")
def of_subscriptions(run: Run) -> None:
    name = run.name("s")
    run.do(altering(name, {INTERVAL: "1000", **OF_NOBODY}))
    until_set(run, name, INTERVAL, "1000")
    run.ask(describing(name))
    run.ask(describing(run.name("never")))
    run.ask(describing(name, keys=[INTERVAL, "nobody.knows"]))
    run.ask(describing(""))


@newer_case(ListConfigResourcesRequest)
def of_subscriptions(run: Run) -> None:  # noqa: F811  a case of another API
    def mine(answer: Any) -> None:
        answer.config_resources = [row for row in answer.config_resources if row.resource_name.startswith(run.prefix)]

    for short in ("b", "a"):
        run.do(altering(run.name(short), {INTERVAL: "1000", **OF_NOBODY}))
        until_set(run, run.name(short), INTERVAL, "1000")
    for kinds in ([], [CLIENT_METRICS]):
        run.ask(ListConfigResourcesRequest(resource_types=kinds), pick=mine)
    run.do(altering(run.name("a"), {INTERVAL: None, MATCH: None}))
    until_set(run, run.name("a"), INTERVAL, "300000")
    run.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]), pick=mine)


class Pushing:
    """A client that this run's subscriptions are for: they match its client id."""

    def __init__(self, run: Run, short: str = "c") -> None:
        self.run = run
        self.client_id = run.name(short)
        self.instance_id = self.new_id("0")
        self.subscription_id = 0
        self.wire = Wire(run.host, run.port, self.client_id)
        about = ApiVersionsRequest(client_software_name="differential", client_software_version="1.0")
        run.do(about, 3, wire=self.wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.close()

    def new_id(self, word: str) -> bytes:
        return hashlib.sha256(f"{self.client_id} {word}".encode()).digest()[:16]

    def subscribe(self, short: str, metrics: str, interval_ms: int, *more: str) -> None:
        """Make a subscription for this client, and wait until the broker tells of it."""
        name = self.run.name(short)
        match = ",".join((f"client_id={self.client_id}", *more))
        settings: dict[str, str | None] = {METRICS: metrics, INTERVAL: str(interval_ms), MATCH: match}
        (row,) = self.run.do(altering(name, settings)).responses
        assert row.error_code == 0, row
        until_set(self.run, name, INTERVAL, str(interval_ms))
        wanted = set(metrics.split(","))
        self.run.until(f"{name} is told", partial(self._is_told, wanted))

    def _is_told(self, wanted: set[str]) -> bool:
        wire = Wire(self.run.host, self.run.port, self.client_id)
        try:
            told = self.run.do(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0, wire=wire)
        finally:
            wire.close()
        return bool(set(told.requested_metrics) & (wanted | {"*"}))

    def ask(self, instance_id: bytes | None = None) -> None:
        """Ask what to push, and keep the answer; of the id of the subscriptions what does not depend on the client."""
        asked = self.instance_id if instance_id is None else instance_id

        def without_id(answer: Any) -> None:
            self.subscription_id = answer.subscription_id or self.subscription_id
            told = answer.client_instance_id
            answer.subscription_id = 0 if answer.error_code else answer.subscription_id ^ folded(told)
            answer.client_instance_id = b"\1" * 16 if told == asked else told

        self.run.ask(GetTelemetrySubscriptionsRequest(client_instance_id=asked), 0, pick=without_id, wire=self.wire)

    def push(self, metrics: bytes = b"", **fields: Any) -> None:
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            terminating=False,
            compression_type=Compression.NONE,
            metrics=metrics,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        self.run.ask(request, 0, wire=self.wire)


def folded(identifier: bytes) -> int:
    """Return the hash of a java.util.UUID, as a signed number."""
    both = int.from_bytes(identifier[:8], "big") ^ int.from_bytes(identifier[8:], "big")
    value = (both >> 32) ^ (both & 0xFFFFFFFF)
    return value - (1 << 32) if value >= 1 << 31 else value


@newer_case(GetTelemetrySubscriptionsRequest)
def nothing_to_push(run: Run) -> None:
    with Pushing(run) as client:
        client.ask(ZERO_UUID)
        client.ask()
        client.ask()


@newer_case(GetTelemetrySubscriptionsRequest)
def what_to_push(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s1", "org.apache.kafka.producer.,org.apache.kafka.consumer.", 60_000)
        client.ask()
        client.subscribe("s2", "a,bb,ccc,org.apache.kafka.producer.,e,f,g,h,i,j,k,l,m", 50_000)
        client.ask()
        client.ask()
        client.ask(client.new_id("1"))
        client.subscribe("s3", "*", 70_000)
        client.ask()
        client.subscribe("s4", "x", 400_000)
        client.ask(client.new_id("2"))


@newer_case(GetTelemetrySubscriptionsRequest)
def whom_a_subscription_is_for(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s1", "all", 100_000)
        for number, more in enumerate(
            (
                ("client_software_name=diff.*",),
                ("client_software_name=diff",),
                ("client_software_version=1\\.0",),
                ("client_source_address=127.0.0.1", "client_source_port=[0-9]+"),
                ("client_source_address=10.*",),
                ("client_instance_id=.{22}",),
                ("client_instance_id=[A-Za-z0-9_-]+",),
            )
        ):
            name, word = run.name(f"m{number}"), f"m{number}"
            match = ",".join((f"client_id={client.client_id}", *more))
            run.do(altering(name, {METRICS: word, INTERVAL: "200000", MATCH: match}))
            until_set(run, name, INTERVAL, "200000")
        client.subscribe("last", "z", 100_000)
        client.ask()


@newer_case(PushTelemetryRequest)
def metrics(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        some = pushed(gauge(RATE, 1.5), counter("org.apache.kafka.producer.record.send.total", 7))
        for codec in Compression:
            client.instance_id = client.new_id(codec.name)
            client.ask()
            client.push(compress(codec, some), compression_type=codec)


@newer_case(PushTelemetryRequest)
def nothing(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        client.ask()
        client.push()
        client.push()
        client.push(terminating=True)


@newer_case(PushTelemetryRequest)
def too_early_and_at_the_end(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        some = pushed(gauge(RATE, 1.5))
        client.ask()
        client.push(some)
        client.push(some)
        client.ask()
        client.push(some, terminating=True)
        client.push(some, terminating=True)
        client.push(some)
        client.ask()


@newer_case(PushTelemetryRequest)
def of_nobody(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        some = pushed(gauge(RATE, 1.5))
        client.push(some, client_instance_id=ZERO_UUID)
        client.push(some, client_instance_id=bytes(15) + b"\1")
        client.push(some, subscription_id=7)
        client.ask()
        client.push(some)


@newer_case(PushTelemetryRequest)
def with_another_subscription(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        client.ask()
        client.push(pushed(gauge(RATE, 1.5)), subscription_id=client.subscription_id + 1)
        client.ask()
        client.push(pushed(gauge(RATE, 1.5)))
        client.subscribe("t", "com.", 100_000)
        client.push(pushed(gauge(RATE, 1.5)))
        client.push(pushed(gauge(RATE, 1.5)))
        client.ask()
        client.ask()


@newer_case(PushTelemetryRequest)
def what_cannot_be_read(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        some = pushed(gauge(RATE, 1.5))
        for number, (codec, content) in enumerate(
            (
                (Compression.NONE, b"no protobuf"),
                (Compression.GZIP, some),
                (Compression.ZSTD, some),
                (Compression.LZ4, some),
                (Compression.ZSTD, compress(Compression.ZSTD, b"no protobuf")),
                (5, some),
                (-1, some),
                (9, b""),
                (Compression.NONE, bytes(MAX_BYTES + 1)),
                (9, bytes(MAX_BYTES + 1)),
            )
        ):
            client.instance_id = client.new_id(str(number))
            client.ask()
            client.push(content, compression_type=codec)
            client.ask()
            client.push(some)


@newer_case(PushTelemetryRequest)
def what_unfolds_to_much_more(run: Run) -> None:
    with Pushing(run) as client:
        client.subscribe("s", "org.", 100_000)
        client.ask()
        large = gauge(RATE, 1.5)
        large.description = "x" * 9 * MAX_BYTES
        client.push(compress(Compression.ZSTD, pushed(large)), compression_type=Compression.ZSTD)


@newer_case(IncrementalAlterConfigsRequest, "0-1")
def patterns_that_only_java_has(run: Run) -> None:
    run.ask(altering(run.name("s"), {MATCH: "client_id=(?!any)nobody"}))
    run.do(altering(run.name("s"), {MATCH: None}))
