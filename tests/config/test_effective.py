"""The mark `effective` is true: such a setting is read by the broker's code or its command, and no other is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config.broker import BrokerSettings
from config.java_classes import GUARDS
from config.topic import LogConfig

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker", "controller", "coordinator", "metadata", "replication", "security", "storage")
START = ROOT / "barnabas/start.py"  # the command itself sets up what is logged
GROUPS = ROOT / "config/share_group.py"  # where the broker's and a group's own settings meet
FILES = [START, GROUPS, *(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))]
SOURCE = "\n".join(path.read_text() for path in FILES)

# Settings that act through something derived from them in `config`.
DERIVED = {
    "barnabas.message.ttl.ms": "ttl_ms",
    "authorizer.class.name": "acl_settings",
    "broker.id": "effective_broker_id",
    "broker.id.generation.enable": "effective_broker_id",
    "node.id": "effective_broker_id",
    "log.dir": "log_directories",
    "log.dirs": "log_directories",
    "max.connections.per.ip.overrides": "limits_by_address",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.difference.max.ms": "timestamp_before_max_ms",
    "segment.ms": "roll_ms",
}


def _is_read(name: str, attribute: str) -> bool:
    return f'"{name}"' in SOURCE or re.search(rf"\.{DERIVED.get(name, attribute)}\b", SOURCE) is not None


@pytest.mark.parametrize("name", sorted(LogConfig.definitions))
def test_topic_setting(name: str) -> None:
    row = LogConfig.definitions[name]
    assert row.effective == _is_read(name, row.attribute)


@pytest.mark.parametrize("name", sorted(BrokerSettings.definitions))
def test_broker_setting(name: str) -> None:
    row = BrokerSettings.definitions[name]
    through_topics = any(name in topic.synonyms for topic in LogConfig.definitions.values() if topic.effective)
    assert row.effective == (through_topics or name in GUARDS or _is_read(name, row.attribute))
