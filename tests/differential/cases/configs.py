"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.create_topics import CreateTopicsResponse
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from protocol.messages.incremental_alter_configs import AlterableConfig as Change
from protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.differential.play import Run, case

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
REQUEST_LOGGER = "kafka.request.logger"


def describing(
    kind: int, name: str, keys: list[str] | None, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=documentation)


def value_of(run: Run, kind: int, name: str, setting: str) -> str | None:
    """Only to wait for it."""
    (result,) = run.do(describing(kind, name, [setting])).results
    value: str | None = result.configs[0].value
    return value


def shortened(*names: str) -> Callable[[DescribeConfigsResponse], None]:
    """Only these settings, and of the documentation only that it is there."""

    def pick(answer: DescribeConfigsResponse) -> None:
        for result in answer.results:
            if names:
                result.configs = [config for config in result.configs if config.name in names]
            for config in result.configs:
                config.documentation = "<text>" if config.documentation else config.documentation

    return pick


def without_own_settings(answer: DescribeConfigsResponse | CreateTopicsResponse) -> None:
    """Apache Kafka's topics do not have ours."""
    rows = answer.results if isinstance(answer, DescribeConfigsResponse) else answer.topics
    for row in rows:
        row.configs = [config for config in row.configs if not config.name.startswith("barnabas.")]


@case(DescribeConfigsRequest, "normal")
def every_setting_of_a_topic(run: Run) -> None:
    topic = run.topic(retention_ms="12345", cleanup_policy="compact,delete")
    run.ask(describing(TOPIC, topic, None), pick=without_own_settings)


@case(DescribeConfigsRequest, "normal", "1+")
def synonyms_of_a_topic(run: Run) -> None:
    topic = run.topic(segment_bytes="1000000")
    run.ask(describing(TOPIC, topic, None, synonyms=True), pick=without_own_settings)


@case(DescribeConfigsRequest, "normal", "3+")
def documentation_of_a_topic(run: Run) -> None:
    keys = ["segment.bytes", "retention.ms", "cleanup.policy"]
    run.ask(describing(TOPIC, run.topic(), keys, documentation=True), pick=shortened())


BROKER_KEYS = [
    "advertised.listeners", "auto.create.topics.enable", "broker.id", "compression.type", "group.max.size", "listeners",
    "log.cleaner.threads", "log.cleanup.policy", "log.dirs", "log.retention.hours", "log.retention.minutes",
    "log.retention.ms", "log.segment.bytes", "message.max.bytes", "min.insync.replicas", "num.io.threads",
    "num.partitions", "sasl.jaas.config", "ssl.keystore.password", "zookeeper.connect",
]  # fmt: skip
UNDOCUMENTED = ("barnabas.", "log.initial.task.delay.ms")
"""Settings of our own; and one of Apache Kafka's that shows only where it is set."""
LOCAL = ("listeners", "advertised.listeners", "log.dirs", "zookeeper.connect")


def without_local_values(answer: DescribeConfigsResponse) -> None:
    """Ports, folders and the store's address belong to the machine; whether there is a value at all to the store."""
    for result in answer.results:
        result.configs = [config for config in result.configs if config.name not in LOCAL]


@case(DescribeConfigsRequest, "normal")
def some_of_the_broker(run: Run) -> None:
    run.ask(describing(BROKER, "0", BROKER_KEYS), pick=without_local_values)


@case(DescribeConfigsRequest, "normal", "1+")
def synonyms_of_the_broker(run: Run) -> None:
    run.ask(describing(BROKER, "0", BROKER_KEYS, synonyms=True), pick=without_local_values)


@case(DescribeConfigsRequest, "edge")
def names_and_types_of_every_broker_setting(run: Run) -> None:
    def names(answer: DescribeConfigsResponse) -> None:
        for result in answer.results:
            result.configs = [config for config in result.configs if not config.name.startswith(UNDOCUMENTED)]
            for config in result.configs:
                config.value, config.is_default, config.config_source, config.synonyms = None, False, -1, []

    run.ask(describing(BROKER, "0", None), pick=names)


@case(DescribeConfigsRequest, "edge")
def the_default_of_all_brokers(run: Run) -> None:
    run.ask(describing(BROKER, "", ["message.max.bytes", "broker.id"]))


@case(DescribeConfigsRequest, "edge")
def no_keys_no_resources_unknown_keys(run: Run) -> None:
    topic = run.topic()
    run.ask(describing(TOPIC, topic, []), pick=without_own_settings)
    run.ask(describing(TOPIC, topic, ["nonsense", "segment.bytes"]))
    run.ask(DescribeConfigsRequest(resources=[]))


@case(DescribeConfigsRequest, "edge")
def the_same_twice(run: Run) -> None:
    request = describing(TOPIC, run.topic(), ["segment.bytes"])
    request.resources.append(request.resources[0])
    run.ask(request)


@case(DescribeConfigsRequest, "edge")
def a_logger(run: Run) -> None:
    run.ask(describing(BROKER_LOGGER, "0", ["root"]))


@case(DescribeConfigsRequest, "edge", "1+")
def a_logger_with_all_that_is_known(run: Run) -> None:
    run.do(changing(BROKER_LOGGER, "0", (REQUEST_LOGGER, SET, "WARN")))
    run.ask(describing(BROKER_LOGGER, "0", [REQUEST_LOGGER], synonyms=True, documentation=True))


@case(DescribeConfigsRequest, "edge")
def no_logger(run: Run) -> None:
    run.ask(describing(BROKER_LOGGER, "0", ["no.such.logger", ""]))


@case(DescribeConfigsRequest, "wrong")
def names_that_are_not(run: Run) -> None:
    for kind, name in ((TOPIC, run.name("missing")), (TOPIC, "bad name"), (TOPIC, ""), (BROKER, "7"), (BROKER, "x")):
        run.ask(describing(kind, name, ["segment.bytes"]))


ALMOST_ZERO = (" 0", "0 ", "\n0", "+0", "-0", "00", "\u0660", "0_0", "0x0", "0.0")
"""Texts that some language reads as the number of broker 0."""


@case(DescribeConfigsRequest, "wrong")
def brokers_whose_number_is_almost_one(run: Run) -> None:
    for name in ALMOST_ZERO:
        run.ask(describing(BROKER, name, ["background.threads"]))


@case(DescribeConfigsRequest, "wrong")
def types_that_are_not(run: Run) -> None:
    for kind in (0, 1, 3, 9, -1):
        run.ask(describing(kind, "x", None))


# -- AlterConfigs


def altering(kind: int, name: str, validate_only: bool = False, **values: str | None) -> AlterConfigsRequest:
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def settings_of(run: Run, topic: str) -> None:
    """Keep what the topic itself sets now: brokers read that in the store."""
    answer = run.do(describing(TOPIC, topic, None))
    run.note({config.name: config.value for config in answer.results[0].configs if config.config_source == 1})


@case(AlterConfigsRequest, "normal")
def replaces_what_was_set(run: Run) -> None:
    topic = run.topic(segment_bytes="1000000")
    run.ask(altering(TOPIC, topic, retention_ms="5000"))
    settings_of(run, topic)
    run.ask(altering(TOPIC, topic, validate_only=True, segment_bytes="2000000"))
    settings_of(run, topic)
    run.ask(altering(TOPIC, topic))
    settings_of(run, topic)


@case(AlterConfigsRequest, "edge")
def nothing_at_all(run: Run) -> None:
    run.ask(AlterConfigsRequest(resources=[], validate_only=False))


@case(AlterConfigsRequest, "edge")
def a_null_value(run: Run) -> None:
    run.ask(altering(TOPIC, run.topic(), retention_ms=None))


@case(AlterConfigsRequest, "edge")
def a_topic_twice(run: Run) -> None:
    request = altering(TOPIC, run.topic(), retention_ms="1")
    request.resources.append(request.resources[0])
    run.ask(request, may_be_silent=True)


@case(AlterConfigsRequest, "wrong")
def settings_and_values(run: Run) -> None:
    topic = run.topic()
    for values in (
        {"nonsense": "1"},
        {"retention_ms": "abc"},
        {"segment_bytes": "1"},
        {"cleanup_policy": "x"},
        {"retention_ms": ""},
    ):
        run.ask(altering(TOPIC, topic, False, **values))


@case(AlterConfigsRequest, "wrong")
def topics_and_types_that_are_not(run: Run) -> None:
    run.ask(altering(TOPIC, run.name("missing"), retention_ms="1"))
    run.ask(altering(TOPIC, "bad name", retention_ms="1"))
    run.ask(altering(TOPIC, "", retention_ms="1"))
    for kind in (0, 1, 3, 9):
        run.ask(altering(kind, "x", retention_ms="1"))


@case(AlterConfigsRequest, "wrong")
def of_a_broker(run: Run) -> None:
    run.ask(altering(BROKER, "7", message_max_bytes="1000000"))
    run.ask(altering(BROKER, "x", message_max_bytes="1000000"))
    run.ask(altering(BROKER, "0", True, message_max_bytes="abc"))
    run.ask(altering(BROKER, "0", True, broker_id="5"))
    run.ask(altering(BROKER, "0", True, nonsense="5"))
    run.ask(altering(BROKER, "0", True, message_max_bytes="1000000"))


@case(AlterConfigsRequest, "wrong")
def of_a_broker_whose_number_is_almost_one(run: Run) -> None:
    for name in ALMOST_ZERO:
        run.ask(altering(BROKER, name, True, message_max_bytes="1000000"))


@case(AlterConfigsRequest, "wrong")
def of_a_logger(run: Run) -> None:
    run.ask(altering(BROKER_LOGGER, "0", root="INFO"))


# -- IncrementalAlterConfigs


def changing(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [Change(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = ChangedResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


@case(IncrementalAlterConfigsRequest, "normal")
def set_and_delete(run: Run) -> None:
    topic = run.topic(segment_bytes="1000000")
    run.ask(changing(TOPIC, topic, ("retention.ms", SET, "5000")))
    settings_of(run, topic)
    run.ask(
        changing(TOPIC, topic, ("segment.bytes", DELETE, None), ("max.message.bytes", SET, "1000"), validate_only=True)
    )
    settings_of(run, topic)
    run.ask(changing(TOPIC, topic, ("segment.bytes", DELETE, None), ("max.message.bytes", SET, "1000")))
    settings_of(run, topic)


@case(IncrementalAlterConfigsRequest, "normal")
def append_and_subtract(run: Run) -> None:
    topic = run.topic()
    changes = (
        (APPEND, "compact"),
        (APPEND, "compact"),
        (SUBTRACT, "delete"),
        (SUBTRACT, "delete"),
        (APPEND, "delete,compact"),
    )
    for operation, value in changes:
        run.ask(changing(TOPIC, topic, ("cleanup.policy", operation, value)))
        settings_of(run, topic)


@case(IncrementalAlterConfigsRequest, "edge")
def deletes_what_is_not_set(run: Run) -> None:
    topic = run.topic()
    run.ask(changing(TOPIC, topic, ("retention.ms", DELETE, None)))
    run.ask(changing(TOPIC, topic, ("retention.ms", DELETE, "7")))
    run.ask(changing(TOPIC, topic))
    run.ask(IncrementalAlterConfigsRequest(resources=[], validate_only=False))


@case(IncrementalAlterConfigsRequest, "edge")
def broker_settings_are_only_validated(run: Run) -> None:
    for changes in (
        ("message.max.bytes", SET, "1000000"), ("message.max.bytes", DELETE, None), ("log.cleaner.threads", SET, "2"),
        ("log.cleanup.policy", APPEND, "compact"),
    ):  # fmt: skip
        for name in ("0", ""):
            run.ask(changing(BROKER, name, changes, validate_only=True))


@case(IncrementalAlterConfigsRequest, "edge")
def a_broker_setting_set_and_deleted(run: Run) -> None:
    keys = ["log.retention.ms"]
    run.ask(changing(BROKER, "0", ("log.retention.ms", SET, "86400000")))
    run.until("it is in force", lambda: value_of(run, BROKER, "0", "log.retention.ms") == "86400000")
    run.ask(describing(BROKER, "0", keys, synonyms=True), 4)
    run.ask(changing(BROKER, "0", ("log.retention.ms", DELETE, None)))
    run.until("it is not any more", lambda: value_of(run, BROKER, "0", "log.retention.ms") is None)
    run.ask(describing(BROKER, "0", keys, synonyms=True), 4)


@case(IncrementalAlterConfigsRequest, "wrong")
def settings_and_values_(run: Run) -> None:
    topic = run.topic()
    for change in (
        ("nonsense", SET, "1"), ("retention.ms", SET, "abc"), ("retention.ms", SET, None), ("segment.bytes", SET, "1"),
        ("retention.ms", APPEND, "5"), ("retention.ms", SUBTRACT, "5"), ("cleanup.policy", APPEND, None),
        ("cleanup.policy", APPEND, "x"), ("nonsense", APPEND, "1"), ("nonsense", DELETE, None),
        ("retention.ms", 9, "1"), ("retention.ms", -1, "1"), ("", SET, "1"),
    ):  # fmt: skip
        run.ask(changing(TOPIC, topic, change))


@case(IncrementalAlterConfigsRequest, "wrong")
def a_broker_whose_number_is_almost_one(run: Run) -> None:
    for name in ALMOST_ZERO:
        run.ask(changing(BROKER, name, ("message.max.bytes", SET, "1000000"), validate_only=True))


@case(IncrementalAlterConfigsRequest, "edge")
def values_as_java_reads_them(run: Run) -> None:
    topic = run.topic()
    for name, values in (
        ("retention.ms", ("\u00a05000", "5001\u00a0", "\t5002\r\n", "\u0001 5003\x1f", "\u0665\u0660", "+5004", "005005",
                          "5_006", "5e3", "5007L", "0x10", "\u30005008", "--5", "+ 5")),
        ("min.cleanable.dirty.ratio", ("0.25d", ".5", "1e-1", "0x1p-1", "0,5", "\u00a00.5", " 0.75 ", "1_0e-1")),
        ("preallocate", (" TRUE ", "yes", "\u00a0true", "1")),
        ("cleanup.policy", (" compact , delete ", "compact,\u00a0delete", "compact\t,\ndelete", "\u00a0compact")),
        ("compression.type", (" lz4 ", "LZ4", "\u00a0lz4")),
    ):  # fmt: skip
        for value in values:
            run.ask(changing(TOPIC, topic, (name, SET, value)))
            run.note({name: value_of(run, TOPIC, topic, name)})


@case(IncrementalAlterConfigsRequest, "wrong")
def the_same_twice_(run: Run) -> None:
    topic = run.topic()
    run.ask(changing(TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")))
    request = changing(TOPIC, topic, ("retention.ms", SET, "1"))
    request.resources.append(request.resources[0])
    run.ask(request)


@case(IncrementalAlterConfigsRequest, "wrong")
def topics_and_types_that_are_not_(run: Run) -> None:
    for kind, name in (
        (TOPIC, run.name("missing")),
        (TOPIC, "bad name"),
        (TOPIC, ""),
        (BROKER, "7"),
        (BROKER, "x"),
        (0, "x"),
        (1, "x"),
        (9, "x"),
    ):
        run.ask(changing(kind, name, ("retention.ms", SET, "1")))


@case(IncrementalAlterConfigsRequest, "wrong")
def broker_settings(run: Run) -> None:
    for change in (
        ("broker.id", SET, "5"), ("num.partitions", SET, "5"), ("message.max.bytes", SET, "abc"),
        ("message.max.bytes", SET, "-1"), ("log.cleaner.threads", SET, "500"), ("num.io.threads", SET, "0"),
    ):  # fmt: skip
        run.ask(changing(BROKER, "0", change, validate_only=True))


@case(IncrementalAlterConfigsRequest, "normal")
def the_level_of_a_logger(run: Run) -> None:
    for change in ((REQUEST_LOGGER, SET, "ERROR"), (REQUEST_LOGGER, DELETE, None), (REQUEST_LOGGER, SET, "WARN")):
        run.ask(changing(BROKER_LOGGER, "0", change))
        if change[1] == SET:
            run.note({change[0]: value_of(run, BROKER_LOGGER, "0", REQUEST_LOGGER)})


@case(IncrementalAlterConfigsRequest, "edge")
def levels_of_loggers(run: Run) -> None:
    run.ask(changing(BROKER_LOGGER, "0", (REQUEST_LOGGER, DELETE, "INFO")))
    for changes in (
        [(REQUEST_LOGGER, SET, "WARN")],
        [(REQUEST_LOGGER, SET, "ERROR"), ("no.such.logger", SET, "INFO")],
        [(REQUEST_LOGGER, SET, "WARN"), (REQUEST_LOGGER, SET, "ERROR")],
        [(REQUEST_LOGGER, SET, "WARN"), (REQUEST_LOGGER, DELETE, None)],
        [(REQUEST_LOGGER, SET, "warn")],
        [(REQUEST_LOGGER, SET, " WARN ")],
        [(REQUEST_LOGGER, SET, "")],
        [(REQUEST_LOGGER, SET, None)],
        [(REQUEST_LOGGER, SET, "OFF")],
        [(REQUEST_LOGGER, SET, "ALL")],
        [("", SET, "INFO")],
        [],
        [(REQUEST_LOGGER, SET, "WARN")],
    ):
        run.ask(changing(BROKER_LOGGER, "0", *changes))
        run.note({"level": value_of(run, BROKER_LOGGER, "0", REQUEST_LOGGER)})


@case(IncrementalAlterConfigsRequest, "wrong")
def loggers_of_no_broker(run: Run) -> None:
    for name in ("", "1", "x", "00", " 0"):
        run.ask(changing(BROKER_LOGGER, name, (REQUEST_LOGGER, SET, "WARN"), validate_only=True))


@case(IncrementalAlterConfigsRequest, "wrong")
def loggers(run: Run) -> None:
    for change in (
        ("root", SET, "NONSENSE"),
        ("root", DELETE, None),
        ("no.such.logger", SET, "INFO"),
        ("root", APPEND, "INFO"),
    ):
        run.ask(changing(BROKER_LOGGER, "0", change, validate_only=True))
