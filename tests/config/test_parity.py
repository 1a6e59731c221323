"""Every setting of Apache Kafka 3.9 is in the tables, with its type, default, range, update mode and synonyms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config.broker import BrokerSettings
from config.broker.barnabas import OwnSettings
from config.broker.share_groups import ShareGroupSettings
from config.definition import Setting
from config.layers import Throttles
from config.topic import LogConfig

FACTS = (Path(__file__).parent / "settings-3.9.txt").read_text().split("\n## ")


def _rows(part: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.split("|")] for line in part.splitlines()[1:]]
    return {row[0]: row[1:] for row in cells if len(row) > 3}


BROKER, TOPIC = _rows(FACTS[0]), _rows(FACTS[1])
# Ranges that are written in another form here.
OTHER_WORDS = {
    "group.share.max.size": "[1,...,1000]",  # as in 4.3
    "group.share.record.lock.duration.ms": "[1000,...,3600000]",  # as in 4.3
    "remote.log.manager.copier.thread.pool.size": "[1,...] or -1",
    "remote.log.manager.expiration.thread.pool.size": "[1,...] or -1",
}


def _default(row: Setting) -> str:
    value = row.kafka_default
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if value == "":
        return '""'
    return row.format(value) or "null"


NEWER = {
    "group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms", "group.consumer.regex.refresh.interval.ms",
    *(name for name in ShareGroupSettings.definitions if name.startswith("share.")),
    "group.share.assignment.interval.ms", "group.share.assignors", "group.share.initialize.retry.interval.ms",
    "group.share.max.assignment.interval.ms", "group.share.max.delivery.count.limit",
    "group.share.max.partition.max.record.locks", "group.share.max.share.sessions",
    "group.share.min.assignment.interval.ms", "group.share.min.delivery.count.limit",
    "group.share.min.partition.max.record.locks",
}  # fmt: skip
"""Those of 4.3."""


OWN_OF_TOPICS = {name for name in LogConfig.definitions if name.startswith("barnabas.")}


def test_no_setting_is_missing_and_none_invented() -> None:
    assert BROKER.keys() == BrokerSettings.definitions.keys() - OwnSettings.definitions.keys() - NEWER
    assert all(BrokerSettings.definitions[name].internal for name in NEWER), "3.9 does not tell of them"
    assert TOPIC.keys() == LogConfig.definitions.keys() - OWN_OF_TOPICS
    assert all(name.startswith("barnabas.") for name in OwnSettings.definitions)


@pytest.mark.parametrize("name", sorted(BROKER))
def test_broker_setting(name: str) -> None:
    type_, default, valid, update, *rest = BROKER[name]
    row = BrokerSettings.definitions[name]
    assert row.type.name.lower() == type_
    assert _default(row) == default.removeprefix("class ")
    assert row.valid_text == OTHER_WORDS.get(name, valid)
    assert row.update.value == (update or "read-only")
    assert row.internal == (rest == ["internal"])


@pytest.mark.parametrize("name", sorted(TOPIC))
def test_topic_setting(name: str) -> None:
    type_, default, valid, *rest = TOPIC[name]
    row = LogConfig.definitions[name]
    assert (row.type.name.lower(), _default(row), row.valid_text) == (type_, default, valid)
    synonyms = re.findall(r"[a-z0-9.]+", rest[-1]) if rest[-1:] != [""] else []
    assert list(row.synonyms) == synonyms


@pytest.mark.parametrize(
    "row", [*BrokerSettings.definitions.values(), *LogConfig.definitions.values()], ids=lambda row: row.name
)
def test_defaults_are_valid_and_documented(row: Setting) -> None:
    if row.default not in (None, (), ""):  # Kafka leaves these unchecked in several rows
        text = row.format(row.default)
        assert text is not None
        assert row.parse(text) == row.default
    assert row.doc.endswith(".")


def test_throttles_exist_as_dynamic_settings_only() -> None:
    listed = FACTS[2].splitlines()[3].strip("[]").split(", ")
    assert sorted(listed) == sorted(Throttles.definitions)
    assert not Throttles.definitions.keys() & BrokerSettings.definitions.keys()
