"""`barnabas settings`: the filter, JSON, and the check of a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from broker.commands import settings_check
from broker.commands.settings_sources import settings_of
from broker.process import BrokerProcess
from broker.start_options import StartOptions
from config.errors import ConfigError
from tests.barnabas.test_command import run
from tests.tls_certificates import authority, issued

LISTENERS = "listeners=SSL://127.0.0.1:0\nsecurity.inter.broker.protocol=SSL\n"


def written(folder: Path, text: str) -> str:
    path = folder / "server.properties"
    path.write_text(text)
    return str(path)


def test_words_select_settings_by_name() -> None:
    answer = run("settings", "retention", "MINUTES")
    assert answer.returncode == 0
    assert [line for line in answer.stdout.splitlines() if line[0] != " "] == [
        "log.retention.minutes = null",
        "offsets.retention.minutes = 10080",
    ]
    assert "(no effect)" in run("settings", "background.threads").stdout
    absent = run("settings", "retntion")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr == "barnabas: no setting has retntion in its name: did you mean retention?\n"
    similar = run("settings", "retention.mz").stderr
    assert similar == "barnabas: no setting has retention.mz in its name: did you mean log.retention.ms?\n"
    of_topics = run("settings", "flush.ms").stderr
    assert of_topics.endswith("in its name: it is a topic's, the broker's is log.flush.interval.ms\n")


def test_words_and_a_file_go_together(tmp_path: Path) -> None:
    file = written(tmp_path, "log.retention.hours=5\nssl.key.password=hunter2\n")
    answer = run("settings", "log.retention.h", file)
    assert answer.stdout.splitlines()[0] == "log.retention.hours = 5"
    rows = {row["name"]: row for row in json.loads(run("settings", "--json", "--all", file).stdout)}
    assert (rows["log.retention.hours"]["value"], rows["log.retention.hours"]["default"]) == ("5", "168")
    assert rows["log.retention.hours"]["is_given"] and not rows["log.retention.ms"]["is_given"]
    assert rows["log.retention.ms"]["value"] is None
    assert rows["ssl.key.password"]["value"] == "[hidden]"
    assert not rows["background.threads"]["has_effect"]
    two = run("settings", file, "other.properties")
    assert two.returncode == 2 and "one properties file" in two.stderr


def test_a_file_without_problems_is_valid(tmp_path: Path) -> None:
    file = written(tmp_path, "broker.id=1\nnum.partitions=3\n")
    answer = run("settings", "--check", file)
    assert (answer.returncode, answer.stdout) == (0, f"{file}: 2 settings, 0 errors, 0 warnings\n")


def test_each_problem_is_named_with_its_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "broker.id=1\nlog.segmnt.bytes=7\nbackground.threads=7\n# comment\nnum.partitions=\\\n  x\nbroker.id=2\n",
    )
    answer = run("settings", "--check", file)
    assert answer.returncode == 1
    assert answer.stdout.splitlines() == [
        f"{file}:2: error: unknown setting log.segmnt.bytes: did you mean log.segment.bytes?",
        f"{file}:3: warning: background.threads is accepted and has no effect in this broker",
        f"{file}:5: error: Invalid value x for configuration num.partitions: Not a number of type INT (valid: [1,...])",
        f"{file}:7: warning: broker.id is set in lines 1, 7: the last one counts",
        f"{file}: 4 settings, 2 errors, 2 warnings",
    ]
    report = json.loads(run("settings", "--check", file, "--json").stdout)
    assert not report["is_valid"]
    assert [(row["level"], row["line"]) for row in report["problems"]] == [
        ("error", 2),
        ("warning", 3),
        ("error", 5),
        ("warning", 7),
    ]


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    file = written(tmp_path, "background.threads=7\nlistener.name.other.max.connections=5\n")
    answer = run("settings", "--check", file)
    assert answer.returncode == 0
    assert "2: warning: listener.name.other.max.connections is for no listener: there are plaintext" in answer.stdout


def test_a_check_uses_the_environment_and_overrides_as_a_start_does(tmp_path: Path) -> None:
    file = written(tmp_path, "broker.id=1\n")
    answer = run("settings", "--check", file, environment={"KAFKA_NUM_PARTITIONS": "0"})
    assert answer.returncode == 1 and f"{file}: error: Invalid value 0" in answer.stdout
    answer = run("settings", "--check", file, "--override", "num.partitions=0")
    assert answer.returncode == 1


@pytest.mark.parametrize(
    "text",
    [
        "log.segment.bytes=1",
        "process.roles=broker",
        "max.connections.per.ip=0",
        "authorizer.class.name=org.example.Authorizer",
        "listeners=nonsense",
        "listeners=A://:9092",
        "listeners=SSL://127.0.0.1:0",
        LISTENERS + "ssl.keystore.location=/nowhere/keys.pem\nssl.keystore.type=PEM",
        LISTENERS + "ssl.keystore.location=FOLDER/server.properties\nssl.keystore.type=PEM",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN",
        "zookeeper.connect=x:port",
        "zookeeper.connect=127.0.0.1:1\nbarnabas.zookeeper.sasl.username=only",
        "inter.broker.protocol.version=0.9.0",
        "password.encoder.secret=hunter2\npassword.encoder.cipher.algorithm=DES",
        "config.providers=vault\nconfig.providers.vault.class=org.example.Vault",
    ],
)
def test_a_check_refuses_what_a_start_refuses_in_its_words(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, text.replace("FOLDER", str(tmp_path)) + "\n")

    async def start() -> None:
        settings = settings_of(file, [f"log.dirs={tmp_path}/data"], {})
        async with asyncio.timeout(30):
            await BrokerProcess(settings, StartOptions(show_banner=False), 0).serve(0)

    with pytest.raises(ConfigError) as refused:
        asyncio.run(start())
    assert settings_check.run(file, (), {}, as_json=False) == 1
    checked = capsys.readouterr().out
    assert f"error: {refused.value.line}\n" in checked
    assert "hunter2" not in checked


def test_what_only_members_of_a_cluster_use_is_checked_for_them(tmp_path: Path) -> None:
    text = "replica.selector.class=org.example.Selector\n"
    assert run("settings", "--check", written(tmp_path, text)).returncode == 0
    answer = run("settings", "--check", written(tmp_path, f"{text}zookeeper.connect=127.0.0.1:1\n"))
    assert answer.returncode == 1 and ":1: error: replica.selector.class=org.example.Selector: only" in answer.stdout


def test_keys_and_certificates_are_read(tmp_path: Path) -> None:
    (tmp_path / "keys.pem").write_text(issued("broker", "localhost").both)
    (tmp_path / "trusted.pem").write_text(authority().certificate)
    file = written(
        tmp_path, f"{LISTENERS}ssl.keystore.location={tmp_path}/keys.pem\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={tmp_path}/trusted.pem\nssl.truststore.type=PEM\n",
    )  # fmt: skip
    answer = run("settings", "--check", file)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--check", "/nowhere/server.properties"],
            "cannot read /nowhere/server.properties: No such file or directory",
        ),
        (["--check", "/dev/null", "retention"], "--check takes one file, and no other words"),
        (["--check", "/dev/null", "--override", "x"], "--override x is not of the form name=value"),
    ],
)
def test_what_cannot_be_checked_is_exit_code_2(arguments: list[str], said: str) -> None:
    answer = run("settings", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"barnabas: {said}\n"


def test_settings_of_the_relay_are_checked_with_those_of_the_broker(tmp_path: Path) -> None:
    listener = "listeners=SASL_PLAINTEXT://:9092\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
    for text, reason in (
        ("barnabas.relay.nmae=1\n", "unknown setting barnabas.relay.nmae: did you mean barnabas.relay.name?"),
        ("barnabas.relay.name=a/b\n", "barnabas.relay.name"),
        (listener, "barnabas.relay.enable=true with SASL_PLAINTEXT needs who the relay is to the brokers"),
    ):
        answer = run("settings", "--check", written(tmp_path, f"barnabas.relay.enable=true\n{text}"))
        assert (answer.returncode, reason in answer.stdout) == (1, True), answer.stdout
    answer = run("settings", "relay.name", written(tmp_path, "barnabas.relay.name=mine\n"))
    assert answer.stdout.splitlines()[0] == "barnabas.relay.name = mine"


def test_settings_of_the_web_process_are_checked_with_those_of_the_broker(tmp_path: Path) -> None:
    for text, reason in (
        ("barnabas.web.prot=1\n", "unknown setting barnabas.web.prot: did you mean barnabas.web.port?"),
        ("barnabas.web.host=0.0.0.0\n", "barnabas.web.host=0.0.0.0 can be reached from other machines"),
        (
            "barnabas.web.ssl.keystore.location=/none.pem\n",
            "barnabas.web.ssl.keystore.location=/none.pem: No such file",
        ),
    ):
        file = written(tmp_path, f"barnabas.web.enable=true\n{text}")
        answer = run("settings", "--check", file)
        assert (answer.returncode, answer.stdout.startswith(f"{file}:2: error: {reason}")) == (1, True), answer.stdout
    answer = run("settings", "web.host", written(tmp_path, "barnabas.web.host=::1\n"))
    assert answer.stdout.splitlines()[0] == "barnabas.web.host = ::1"
