"""The whole tour with the command line tools of Apache Kafka 3.9.1."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.process import wait_until

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
PATIENT = ("--timeout", "60000")  # or an answer may be no more than 5 s late
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


def created(bootstrap: str, topic: str, *more: str) -> str:
    arguments = ["--bootstrap-server", bootstrap, "--create", "--topic", topic, *more]
    assert "Created topic" in tools.run("topics", arguments)
    return topic


def produced(bootstrap: str, topic: str, lines: list[str], *more: str) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, *more]
    tools.run("console-producer", arguments, standard_input="".join(f"{line}\n" for line in lines))


def consumed(bootstrap: str, topic: str, count: int, *more: str) -> list[str]:
    arguments = [
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--max-messages",
        str(count),
        "--timeout-ms",
        "60000",
    ]
    output = tools.run("console-consumer", [*arguments, *more], timeout_s=150)
    return [line for line in output.splitlines() if line and not line.startswith(("Processed a total", "["))]


def test_topics_and_configs(bootstrap: str, fresh: Fresh) -> None:
    topic = created(bootstrap, fresh("t"), "--partitions", "3", "--config", "retention.ms=123456")
    server = ["--bootstrap-server", bootstrap]
    described = tools.run("topics", [*server, "--describe", "--topic", topic])
    assert "PartitionCount: 3" in described and "retention.ms=123456" in described
    tools.run("topics", [*server, "--alter", "--topic", topic, "--partitions", "5"])
    assert "PartitionCount: 5" in tools.run("topics", [*server, "--describe", "--topic", topic])
    entity = [*server, "--entity-type", "topics", "--entity-name", topic]
    tools.run(
        "configs", [*entity, "--alter", "--add-config", "segment.bytes=1000000", "--delete-config", "retention.ms"]
    )
    settings = tools.run("configs", [*entity, "--describe"])
    assert "segment.bytes=1000000" in settings and "retention.ms" not in settings
    assert topic in tools.run("topics", [*server, "--list"])
    tools.run("topics", [*server, "--delete", "--topic", topic])
    assert topic not in tools.run("topics", [*server, "--list"])


def test_broker_settings_are_described_and_changed(bootstrap: str) -> None:
    entity = ["--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-name", "0"]
    assert "message.max.bytes=1048588" in tools.run("configs", [*entity, "--describe", "--all"])
    tools.run("configs", [*entity, "--alter", "--add-config", "log.retention.ms=86400000"])
    assert wait_until(lambda: "log.retention.ms=86400000" in tools.run("configs", [*entity, "--describe"]), 60)
    tools.run("configs", [*entity, "--alter", "--delete-config", "log.retention.ms"])


def test_levels_of_loggers_are_described_and_changed(bootstrap: str) -> None:
    entity = ["--bootstrap-server", bootstrap, "--entity-type", "broker-loggers", "--entity-name", "0"]
    tools.run("configs", [*entity, "--alter", "--add-config", "kafka.request.logger=ERROR"])
    levels = tools.run("configs", [*entity, "--describe"])
    assert re.search(r"^ *kafka.request.logger=ERROR ", levels, re.MULTILINE)
    assert re.search(r"^ *root=[A-Z]+ ", levels, re.MULTILINE)
    tools.run("configs", [*entity, "--alter", "--delete-config", "kafka.request.logger"])


def users(bootstrap: str, *arguments: str) -> str:
    """What `barnabas users` prints; it is asked in a process of its own, as operators do."""
    command = [sys.executable, "-m", "barnabas.cli", "users", *arguments, "--bootstrap-server", bootstrap]
    done = subprocess.run(
        command, cwd=REPOSITORY, input="secret\n", capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_users_are_seen_and_changed_by_both_tools(bootstrap: str, fresh: Fresh) -> None:
    name = fresh("alice")
    entity = ["--bootstrap-server", bootstrap, "--entity-type", "users", "--entity-name", name]
    users(bootstrap, "create", name, "--mechanism", "SCRAM-SHA-256", "--password-file", "-")
    assert "SCRAM-SHA-256=iterations=4096" in tools.run("configs", [*entity, "--describe"])
    tools.run("configs", [*entity, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=secret]"])
    assert json.loads(users(bootstrap, "describe", name, "--json"))["credentials"] == [
        {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    users(bootstrap, "delete", name, "--mechanism", "SCRAM-SHA-256", "--execute")
    assert "SCRAM-SHA-512 (8192 iterations)" in users(bootstrap, "list")
    users(bootstrap, "delete", name, "--execute")
    assert "SCRAM" not in tools.run("configs", [*entity, "--describe"])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_console_producer_and_consumer(bootstrap: str, fresh: Fresh, compression: str) -> None:
    topic = created(bootstrap, fresh("t"))
    lines = [f"line {index}" for index in range(200)]
    produced(bootstrap, topic, lines, "--compression-codec", compression)
    assert consumed(bootstrap, topic, 200, "--from-beginning") == lines


def test_keys_and_headers(bootstrap: str, fresh: Fresh) -> None:
    topic = created(bootstrap, fresh("t"))
    properties = ["--property", "parse.key=true", "--property", "parse.headers=true"]
    produced(bootstrap, topic, ["h:1\tk\tv"], *properties)
    shown = ["--property", "print.key=true", "--property", "print.headers=true", "--from-beginning"]
    assert consumed(bootstrap, topic, 1, *shown) == ["h:1\tk\tv"]


def test_consumer_groups(bootstrap: str, fresh: Fresh) -> None:
    topic, group = created(bootstrap, fresh("t")), fresh("g")
    produced(bootstrap, topic, [f"line {index}" for index in range(10)])
    assert len(consumed(bootstrap, topic, 4, "--group", group, "--from-beginning")) == 4
    server = ["--bootstrap-server", bootstrap]
    assert group in tools.run("consumer-groups", [*server, *PATIENT, "--list"])
    described = tools.run("consumer-groups", [*server, *PATIENT, "--describe", "--group", group])
    row = next(line.split() for line in described.splitlines() if line.startswith(group))
    assert row[:6] == [group, topic, "0", "4", "10", "6"]
    assert "Empty" in tools.run("consumer-groups", [*server, *PATIENT, "--describe", "--group", group, "--state"])
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "8", "--execute"]
    tools.run("consumer-groups", [*server, *PATIENT, *reset])
    assert consumed(bootstrap, topic, 2, "--group", group) == ["line 8", "line 9"]
    tools.run("consumer-groups", [*server, *PATIENT, "--delete-offsets", "--group", group, "--topic", topic])
    tools.run("consumer-groups", [*server, *PATIENT, "--delete", "--group", group])
    assert group not in tools.run("consumer-groups", [*server, *PATIENT, "--list"])


def test_a_consumer_of_the_newer_group_protocol_is_told(bootstrap: str, fresh: Fresh) -> None:
    topic = created(bootstrap, fresh("t"))
    produced(bootstrap, topic, ["line"])
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--consumer-property", "group.protocol=consumer"]
    output = tools.run("console-consumer", [*arguments, "--timeout-ms", "60000"], timeout_s=150, check=False)
    assert "UnsupportedVersionException" in output and "failed due to UNSUPPORTED_VERSION" in output


def test_offsets_deletion_and_log_dirs(bootstrap: str, fresh: Fresh, tmp_path_factory: pytest.TempPathFactory) -> None:
    topic = created(bootstrap, fresh("t"))
    produced(bootstrap, topic, [f"line {index}" for index in range(10)])
    server = ["--bootstrap-server", bootstrap]
    assert f"{topic}:0:10" in tools.run("get-offsets", [*server, "--topic", topic, "--time", "-1"])
    wanted = tmp_path_factory.mktemp("delete") / "offsets.json"
    wanted.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 6}}], "version": 1}}')
    assert "low_watermark: 6" in tools.run("delete-records", [*server, "--offset-json-file", str(wanted)])
    assert f"{topic}:0:6" in tools.run("get-offsets", [*server, "--topic", topic, "--time", "-2"])
    assert f'"{topic}-0"' in tools.run("log-dirs", [*server, "--describe", "--topic-list", topic])


def test_perf_tools(bootstrap: str, fresh: Fresh) -> None:
    topic = created(bootstrap, fresh("t"), "--partitions", "3")
    load = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    produced_text = tools.run("producer-perf-test", [*load, "--producer-props", f"bootstrap.servers={bootstrap}"])
    assert "20000 records sent" in produced_text
    consuming = ["--bootstrap-server", bootstrap, "--topic", topic, "--messages", "20000"]
    text = tools.run("consumer-perf-test", [*consuming, *PATIENT])
    row = next(line for line in text.splitlines() if re.match(r"\d{4}-", line))
    assert int(row.split(",")[4]) == 20000


def test_api_versions_are_listed(bootstrap: str) -> None:
    text = tools.run("broker-api-versions", ["--bootstrap-server", bootstrap])
    assert "Produce(0): 0 to 11" in text and "ApiVersions(18): 0 to 4" in text
    assert "ConsumerGroupHeartbeat(68): 0 " in text
