"""A log line is an event in plain words, then its facts: `partition loaded: topic=%s partition=%d duration_ms=%d`.

Every literal that a module gives to its `logger` is read. The event starts in lower case (names may not), has no value in it,
and ends without a period; what follows its `: ` is `key=value` and nothing else. A key means the same in every line: VOCABULARY
is the list of them. A value is shown quoted (`%r`) if a client chose it, and a text, which may have spaces, comes last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

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
    "pipelines",
    "protocol",
    "relay",
    "replication",
    "runtime",
    "security",
    "storage",
    "web",
)
CALLS = ("debug", "info", "warning", "error", "exception", "critical", "log")
NAMES = ("ACL", "ACLs", "AlterPartition", "HTTP", "ISR", "ISRs", "ZooKeeper")

VOCABULARY = {
    "acls": "how many ACLs",
    "address": "host and port of the other end of a connection, or its host",
    "api": "the name of a request's API",
    "attempt": "the number of this attempt, from 1",
    "attempt_limit": "how many attempts are made",
    "assignor": "what assigns the partitions of a consumer group",
    "base_uri": "where browsers reach the web process",
    "base_offset": "the first offset of a segment",
    "base_offsets": "the first offsets of segments",
    "broker": "a broker's id",
    "broker_epoch": "the epoch of a broker's registration",
    "brokers": "how many brokers, or their ids",
    "buffer_percent": "how full a cleaner's offset map was",
    "candidates": "how many might have been chosen",
    "change": "what was to be changed",
    "clean_shutdown": "whether a stop was clean",
    "client_id": "the name that a client gave itself",
    "cluster": "the cluster's id",
    "connections": "how many connections",
    "controller": "the broker id of a controller",
    "controller_epoch": "the epoch of a controller",
    "coordinator_epoch": "the leader epoch of the partition that coordinates a transaction",
    "copied_bytes": "how much was copied",
    "correlation_id": "the number that a client gave a request",
    "current_member_id": "the member that has the place of a fenced one",
    "current_topic_id": "the id of the topic that has the name now",
    "directory": "a directory of log.dirs",
    "document": "what is read again and again, in words",
    "duration_ms": "how long something took or has lasted",
    "duration_us": "how long something took, where milliseconds are too long",
    "enabled": "whether a feature is in use",
    "end_offset": "the offset after the last",
    "entries": "how many files and folders",
    "error": "a failure: its name, or what the system or an exception says",
    "error_code": "a failure's number in Kafka's protocol",
    "example": "one of those that are counted",
    "examples": "the first of those that are counted",
    "exit_code": "what a process ended with; negative: the signal that killed it",
    "failures": "how many attempts in a row failed",
    "files": "how many files",
    "floor_bytes": "the free space below which records are refused",
    "followers": "how many partitions a broker follows",
    "free_bytes": "the free space of a disk",
    "generation": "a group's generation",
    "gone_brokers": "the ids of brokers that are registered no more",
    "group": "a group's id",
    "group_epoch": "a consumer group's epoch",
    "high_watermark": "a partition's high watermark",
    "instance_id": "a static member's group.instance.id",
    "isr": "the in-sync replicas of a partition",
    "keys": "how many keys",
    "kind": "the kind of a group: classic or consumer",
    "last_descriptor": "the last file descriptor that connections may use",
    "leader_epoch": "a partition's leader epoch",
    "leader_id": "the member id of a group's leader",
    "leaders": "how many partitions a broker leads or got a leader, or the ids of leaders",
    "left_out": "how many lines of this kind were left out since the last one",
    "levels": "the levels of features",
    "limit_bytes": "how many bytes may be used",
    "listener": "a listener's name",
    "logs": "how many logs",
    "longest_ms": "the longest of what is counted",
    "member_id": "a group member's id",
    "member_ids": "group members' ids",
    "members": "how many members a group has",
    "missing_member_ids": "the members that a leader gave no assignment",
    "name": "a process of a command",
    "new_brokers": "the ids of brokers that have registered",
    "new_followers": "how many partitions a broker begins to follow",
    "new_leaders": "how many partitions a broker begins to lead",
    "nodes": "how many nodes of the store",
    "offset": "an offset in a partition",
    "offsets": "how many committed offsets",
    "operation": "what a client wanted to do, in the words of ACLs",
    "operations": "how many operations",
    "outcome": "how an attempt ended",
    "outcomes": "how often each error or success came about",
    "partition": "a partition's number in its topic",
    "partitions": "how many partitions, or their numbers",
    "path": "a file, a folder, a node of the store, or the path of an HTTP request",
    "pause_ms": "how long is waited before something is done again",
    "phase": "a phase of startup",
    "points": "how many data points of metrics that clients have pushed",
    "position": "a position in a file",
    "previous_end_offset": "the end offset before",
    "principal": "who a client is, as in ACLs",
    "process_id": "the kernel's number of a process",
    "producer_epoch": "a producer's epoch",
    "producer_id": "a producer's id",
    "protocol": "the protocol that a group chose",
    "queues": "the lengths of queues, by broker",
    "read_bytes": "how much was read",
    "read_records": "how many records were read",
    "reason": "why, in words",
    "reasons": "how many times for each reason",
    "records": "how many records",
    "recorded_epoch": "the epoch of a leader or group that a share coordinator knows",
    "recovery_point": "the offset up to which a log was flushed",
    "refused_connections": "how many connections were refused",
    "renamed_end_offset": "the end offset of the log in renamed_path",
    "renamed_path": "the folder that was renamed",
    "replaced_member_id": "the member whose place another one took",
    "replicas": "how many replicas, or the broker ids of a partition's",
    "replication_factor": "how many replicas were asked for",
    "request": "the contents of a request",
    "requested_epoch": "the epoch of a leader or group that asks a share coordinator",
    "requested_isr": "the in-sync replicas that a leader asked for",
    "requests": "how many were asked for",
    "resolution": "what to do, in words",
    "resource": "the topic or broker whose settings changed",
    "resource_name": "the name of what a client wanted to use",
    "resource_type": "the type of what a client wanted to use",
    "response": "the contents of a response",
    "restarted_brokers": "the ids of brokers that have registered again",
    "rules": "how many rules of a relay hold",
    "session": "the id of a ZooKeeper session",
    "setting": "a setting's name",
    "settings": "names of settings",
    "share_partitions": "how many partitions of share groups",
    "signal": "a signal's name",
    "size_segments": "how many segments retention.bytes deletes",
    "software": "the name and version of a client's library",
    "stack": "where the event loop is",
    "stalls": "how often the event loop stood still",
    "start_offset": "the first offset",
    "start_offset_segments": "how many segments are below the log start offset",
    "step": "what a follower asked for",
    "stored_controller": "the controller that the store names",
    "stored_controller_epoch": "the controller epoch that the store names",
    "subscription": "the name of a subscription of client metrics",
    "target": "the topic into which a record goes",
    "target_path": "the folder that a log moves to",
    "target_replicas": "the replicas after a reassignment",
    "task": "a background task's name",
    "time_segments": "how many segments retention.ms deletes",
    "timeout_ms": "how long something may take",
    "token_id": "a delegation token's id",
    "topic": "a topic's name",
    "topic_id": "a topic's id",
    "topics": "how many topics, or their names",
    "transactional_id": "a producer's transactional id",
    "transactional_ids": "how many transactional ids",
    "trigger": "which of the causes of a rebalance",
    "truncated_bytes": "how much was removed at the end",
    "used_bytes": "how many bytes are in use",
    "version": "the version of a request",
    "waiting_partitions": "how many partitions still wait",
    "waiting_records": "how many records wait for their time",
    "written_bytes": "how much was written",
    "written_records": "how many records were written",
}
CHOSEN_BY_CLIENTS = {"client_id", "path", "principal", "resource_name", "transactional_id"}
TEXTS = {"error", "reason", "request", "resolution", "response", "stack"}

PLACEHOLDER = re.compile(r"%(?:#x|[sdr])")
EVENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,;'.\-]*[A-Za-z0-9]")
PAIR = re.compile(r"([^ =]+)=(?:(?:%d|%s)([:/-])(?:%d|%s)|\n?(%#x|%[sdr]))")


def problems(literal: str) -> list[str]:
    """What is wrong with a line, in words."""
    event, colon, facts = literal.partition(": ")
    found = []
    if not EVENT.fullmatch(event) or event.endswith("."):
        found.append("the event is not plain words")
    if event[:1].isupper() and event.split(" ")[0] not in NAMES:
        found.append("the event starts in upper case")
    if bool(colon) != bool(PLACEHOLDER.search(literal)):
        found.append("there are facts if, and only if, there is a ': '")
    keys = []
    for fact in facts.split(" ") if colon else []:
        pair = PAIR.fullmatch(fact)
        if pair is None:
            found.append(f"{fact!r} is not key=placeholder")
            continue
        key, placeholder = pair[1], pair[3]
        keys.append(key)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            found.append(f"{key} is not in snake case")
        if key not in VOCABULARY:
            found.append(f"{key} is not in the vocabulary")
        if placeholder == "%r" and key not in CHOSEN_BY_CLIENTS:
            found.append(f"{key} is quoted, and no client chose it")
    if len(set(keys)) < len(keys):
        found.append("a key is there twice")
    found += [
        f"{key} is a text, and not the last" for key, after in pairwise(keys) if key in TEXTS and after not in TEXTS
    ]
    return found


def log_calls(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            value = node.func.value
            name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
            if name in ("logger", "log", "_logger", "_log", "logging"):
                yield node


def complaints(source: str) -> list[tuple[int, str]]:
    """(line, what is wrong) of every log call in a module."""
    found = []
    for call in log_calls(source):
        place = 1 if isinstance(call.func, ast.Attribute) and call.func.attr == "log" else 0
        text = call.args[place] if len(call.args) > place else None
        if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != "logger":
            found.append((call.lineno, "the logger is not called logger"))
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            found.append((call.lineno, "the line is not a literal"))
            continue
        found += [(call.lineno, problem) for problem in problems(text.value)]
        arguments = call.args[place + 1 :]
        count = len(PLACEHOLDER.findall(text.value))
        if not any(isinstance(each, ast.Starred) for each in arguments) and len(arguments) != count:
            found.append((call.lineno, f"{count} placeholders, {len(arguments)} values"))
    return found


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_log_lines_keep_the_rules() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in modules()
        for line, problem in complaints(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_vocabulary_has_no_key_that_no_line_uses() -> None:
    texts = "\n".join(
        argument.value
        for path in modules()
        for call in log_calls(path.read_text(encoding="utf-8"))
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )
    assert texts.count("\n") > 150, "the calls are found"
    assert set(VOCABULARY) - set(re.findall(r"(\w+)=", texts)) == set()


@pytest.mark.parametrize(
    "call",
    [
        'logger.info("partition loaded: topic=%s partition=%d duration_ms=%d", topic, 1, 2)',
        'logger.log(level, "partitions offline: partitions=%d example=%s-%d", 1, *key)',
        'logger.info("ZooKeeper connected: address=%s:%d", host, port)',
        'logger.warning("client refused: client_id=%r error=%s", client_id, error)',
        'logger.warning("truncations not finished in time")',
        'logger.error("event loop blocked: stack=\\n%s", stack)',
    ],
)
def test_a_good_line_passes(call: str) -> None:
    assert complaints(call) == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ('logger.info(f"loaded: topic={topic}")', "the line is not a literal"),
        ("logger.info(text)", "the line is not a literal"),
        ('log.info("loaded")', "the logger is not called logger"),
        ('self._logger.info("loaded")', "the logger is not called logger"),
        ('logger.info("Loaded: topic=%s", topic)', "the event starts in upper case"),
        ('logger.info("loaded.")', "the event is not plain words"),
        ('logger.info("topic %s loaded: partition=%d", topic, 1)', "the event is not plain words"),
        ('logger.info("loaded topic=%s", topic)', "there are facts if, and only if, there is a ': '"),
        ('logger.info("loaded: all of them")', "there are facts if, and only if, there is a ': '"),
        ('logger.info("loaded: topic=%s, partition=%d", topic, 1)', "'topic=%s,' is not key=placeholder"),
        ('logger.info("loaded: topic=%s with 3", topic)', "'with' is not key=placeholder"),
        ('logger.info("loaded: %s", topic)', "'%s' is not key=placeholder"),
        ('logger.info("loaded: error=unknown topic=%s", topic)', "'error=unknown' is not key=placeholder"),
        ('logger.info("loaded: Topic=%s", topic)', "Topic is not in snake case"),
        ('logger.info("loaded: log.dirs=%s", topic)', "log.dirs is not in snake case"),
        ('logger.info("loaded: took_ms=%d", 3)', "took_ms is not in the vocabulary"),
        ('logger.info("loaded: error=%r", error)', "error is quoted, and no client chose it"),
        ('logger.info("loaded: topic=%s topic=%s", a, b)', "a key is there twice"),
        ('logger.info("loaded: error=%s topic=%s", error, topic)', "error is a text, and not the last"),
        ('logger.log(level, "loaded: topic=%s")', "1 placeholders, 0 values"),
    ],
)
def test_a_bad_line_is_found(call: str, problem: str) -> None:
    assert problem in [found for _, found in complaints(call)]
