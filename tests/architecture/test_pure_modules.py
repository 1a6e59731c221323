"""A module that says "Pure." or "No IO" in its docstring reaches no clock, network, disk, randomness or event loop.

A package that says so speaks for all of its modules but those it names behind "except in". What `runtime` declares (protocols,
timers) may be named in annotations; the modules below are what does something.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "barnabas",
    "broker",
    "client",
    "config",
    "controller",
    "coordinator",
    "metadata",
    "protocol",
    "relay",
    "replication",
    "runtime",
    "security",
    "storage",
    "web",
)
EFFECTS = ("asyncio", "socket", "time", "random", "threading", "select", "subprocess")
DECLARATION = re.compile(r"\bPure[.:;]|\bNo IO\b")
EXCEPTIONS = re.compile(r"No IO, except in ((?:`\w+`(?:, | and )?)+)")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def declared_pure() -> list[str]:
    pure = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = docstring(path)
            if not DECLARATION.search(text):
                continue
            if path.name != "__init__.py":
                pure.add(module_name(path))
                continue
            named = EXCEPTIONS.search(text)
            left_out = set(re.findall(r"`(\w+)`", named.group(1))) if named else set()
            pure |= {module_name(each) for each in path.parent.rglob("*.py") if each.stem not in left_out}
    return sorted(pure)


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, exclude_type_checking_imports=True)


@pytest.mark.parametrize("module", declared_pure())
def test_a_pure_module_reaches_no_effect(module: str) -> None:
    graph = import_graph()
    chains = [
        " -> ".join(chain)
        for effect in EFFECTS
        if effect in graph.modules and (chain := graph.find_shortest_chain(module, effect))
    ]
    assert chains == []


def test_the_cores_say_that_they_are_pure() -> None:
    """The decisions of the broker: a core that stops saying so would leave the test above."""
    expected = {
        "config.definition",
        "controller.elections.leader_election_rules",
        "controller.partition_state_machine",
        "controller.reassignment_rules",
        "controller.replica_state_machine",
        "controller.requests.request_batch",
        "coordinator.group.shard",
        "coordinator.runtime.contract",
        "coordinator.runtime.partitioner",
        "metadata.admin.placement",
        "metadata.admin.topic_rules",
        "metadata.delta",
        "metadata.image",
        "metadata.store.node_acls",
        "metadata.store.node_tree",
        "metadata.store.znodes",
        "metadata.store.zookeeper.session",
        "metadata.store.zookeeper.wire",
        "protocol.codec.decoder",
        "protocol.records.batch",
        "replication.fetch_sessions",
        "replication.followers.follower",
        "replication.leader",
        "replication.sharing.acknowledgements",
        "replication.sharing.runs",
        "replication.sharing.sessions",
        "replication.sharing.share_partition",
        "replication.waiting.delayed_queues",
        "storage.cleaner.compaction",
        "storage.cleaner.offset_map",
        "storage.checkpoint",
        "storage.log.leader_epochs",
        "storage.log.producers.producer_state",
        "storage.log.removal.retention_rules",
        "storage.log.validation",
        "storage.segments.txn_index",
        "web.access.origins",
        "web.access.sessions",
        "web.history.series",
        "web.messages.conditions",
        "web.messages.scan",
        "web.rest_v3.records.json_stream",
        "web.schemas.avro",
    }
    assert expected <= set(declared_pure())
