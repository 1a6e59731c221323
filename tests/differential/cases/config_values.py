"""Values that settings refuse, and in which words: every setting that may change at run time, of a broker and of a topic."""

from __future__ import annotations

from collections.abc import Iterable

from config.broker import BrokerSettings
from config.definition import Type, Update
from config.java_classes import GUARDS
from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.differential.cases.configs import BROKER, SET, TOPIC, changing
from tests.differential.play import Run, case

VALUES = ("abc", "-2", "-1", "0", "", "1.5", "99999999999999999999")
ADDRESSES = "max.connections.per.ip.overrides"
OTHER_WORDS = (
    ("log.cleaner.threads", "0"), ("num.replica.fetchers", "0"), ("max.connections", "0"), (ADDRESSES, "abc"),
    ("max.connection.creation.rate", "0"), ("log.local.retention.ms", "-1"), ("log.local.retention.ms", "604800001"),
    ("log.local.retention.bytes", "5"), ("log.cleaner.threads", "-1"), (ADDRESSES, "127.0.0.1"), (ADDRESSES, "127.0.0.1:x"),
)  # fmt: skip
"""Apache Kafka's texts have names of Java classes, or are those of Java exceptions."""
NOT_ASKED = {"listeners", "advertised.listeners", "listener.security.protocol.map", "metric.reporters"}
"""Here listeners do not change at run time, and there are no reporters and no Java."""
NOT_ASKED |= {name for name, _ in OTHER_WORDS} | GUARDS.keys()


def broker_settings() -> Iterable[str]:
    for name, row in BrokerSettings.definitions.items():
        is_dynamic = row.update is not Update.READ_ONLY and not row.internal and not name.startswith("barnabas.")
        if is_dynamic and row.type is not Type.CLASS and name not in NOT_ASKED:
            yield name


def refusals(run: Run, kind: int, resource: str, settings: Iterable[str]) -> None:
    """Keep what each setting refuses: the error, with `{}` for the value in its text, and the values."""
    for name in settings:
        kept: dict[str, list[str]] = {}
        for value in VALUES:
            request = changing(kind, resource, (name, SET, value), validate_only=True)
            (answer,) = run.do(request).responses
            if answer.error_code:
                text = run.names.text(answer.error_message or "").replace(f"value {value} ", "value {} ")
                kept.setdefault(f"{ErrorCode(answer.error_code).name}: {text}", []).append(value)
        run.note({name: kept})


@case(IncrementalAlterConfigsRequest, "wrong", "1")
def values_that_a_broker_refuses(run: Run) -> None:
    refusals(run, BROKER, "0", broker_settings())


@case(IncrementalAlterConfigsRequest, "wrong", "1")
def values_that_a_topic_refuses(run: Run) -> None:
    names = (name for name in LogConfig.definitions if not name.startswith("barnabas."))
    refusals(run, TOPIC, run.topic(), names)


@case(IncrementalAlterConfigsRequest, "wrong")
def values_that_a_broker_refuses_in_other_words(run: Run) -> None:
    for name, value in OTHER_WORDS:
        run.ask(changing(BROKER, "0", (name, SET, value), validate_only=True))
