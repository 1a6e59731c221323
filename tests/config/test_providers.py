"""Every form of a reference, a provider and a parameter that Apache Kafka 3.9.1 was asked for, and what we make of it.

providers-3.9.json has its answers, `python -m tests.oracle.settings` records them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.layers import Layers
from config.unknown_settings import unknown_settings
from runtime.disk.os_filesystem import OsFileSystem
from tests.oracle import java
from tests.oracle.provider_files import ENVIRONMENT, FOLDER, make_provider_files
from tests.oracle.settings import PROVIDERS, Case, ask, cases_in, given_in

CASES = cases_in(PROVIDERS)
PACKAGE = "org.apache.kafka.common.config.provider"
ENV = {"config.providers": "env", "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider"}
FILE = {"config.providers": "file", "config.providers.file.class": f"{PACKAGE}.FileConfigProvider"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("provided")
    make_provider_files(path)
    return path


def read(given: dict[str, str], environment: dict[str, str] | None = None) -> BrokerSettings:
    return BrokerSettings.from_sources(given, environment or {}, {}, OsFileSystem())


def ours(case: Case, folder: Path) -> dict[str, Any]:
    """As ReadSettings.java answers, but for the error, which is our one line."""
    given = {name: text.replace(FOLDER, str(folder)) for name, text in given_in(PROVIDERS, case).items()}
    try:
        settings = read(given, dict(ENVIRONMENT))
    except ConfigError as error:
        return {"error": error.line}
    back = {name: text.replace(str(folder), FOLDER) for name, text in settings.given.items()}
    values = {name: back[name] for name, text in given_in(PROVIDERS, case).items() if back[name] != text}
    return {"values": values} if values else {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: " | ".join(map(str, case["given"].values())))
def test_a_reference_becomes_what_apache_kafka_makes_of_it(case: Case, folder: Path) -> None:
    answer = ours(case, folder)
    if "error" in case["answer"]:
        assert "config.providers" in answer["error"] or "${" in answer["error"], answer
        for secret in ("name1", "name2", "s3cret"):
            assert secret not in answer["error"]
    else:
        assert answer == case["answer"]


@pytest.mark.oracle
def test_apache_kafka_still_answers_so() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    assert ask(PROVIDERS) == CASES


def test_overrides_and_variables_are_resolved_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("threads=5\n")
    environment = {
        "KAFKA_CONFIG_PROVIDERS": "env,file",
        "KAFKA_CONFIG_PROVIDERS_ENV_CLASS": f"{PACKAGE}.EnvVarConfigProvider",
        "KAFKA_CONFIG_PROVIDERS_FILE_CLASS": f"{PACKAGE}.FileConfigProvider",
        "KAFKA_BROKER_RACK": "${env:RACK}",
        "RACK": "r1",
        "ID": "7",
    }
    overrides = {"log.cleaner.threads": f"${{file:{tmp_path}/f:threads}}"}
    settings = BrokerSettings.from_sources({"broker.id": "${env:ID}"}, environment, overrides, OsFileSystem())
    assert (settings.broker_rack, settings.broker_id, settings.node_id) == ("r1", 7, 7)
    assert settings.log_cleaner_threads == 5
    assert not unknown_settings(settings) and not settings.provided.unresolved


def test_what_is_not_resolved_is_told() -> None:
    given = ENV | {
        "broker.rack": "${env:RACK}${file:/x:y}",
        "ssl.key.password": "${vault:p4ss:word}",
        "ssl.keystore.password": "${env:PASSWORD}",
    }
    assert read(given).provided.unresolved == (
        "broker.rack: ${env:RACK} is taken as it stands: there is no such environment variable",
        "broker.rack: ${file:/x:y} is taken as it stands: config.providers names no such provider",
        "ssl.key.password: [hidden] is taken as it stands: config.providers names no such provider",
        "ssl.keystore.password: ${env:PASSWORD} is taken as it stands: there is no such environment variable",
    )


def test_names_of_providers_are_known_and_mistakes_in_them_told() -> None:
    given = ENV | FILE | {"config.providers": "env,file", "config.providers.env.param.allowlist.patern": "A.*"}
    given |= {"config.providers.file.param.allowed.paths": "/", "config.providers.other.class": "x"}
    assert [str(each).partition(":")[0] for each in unknown_settings(read(given))] == [
        "unknown setting config.providers.env.param.allowlist.patern",
        "unknown setting config.providers.other.class",
    ]
    assert "did you mean config.providers.env.param.allowlist.pattern?" in str(unknown_settings(read(given))[0])


@pytest.mark.parametrize(
    ("setting", "secret"),
    [
        ("num.partitions", "s3cret"),
        ("num.partitions", "-1"),
        ("log.cleanup.policy", "s3cret"),
        ("auto.create.topics.enable", "s3cret"),
        ("inter.broker.protocol.version", "s3cret"),
        ("max.connections.per.ip.overrides", "s3cret:x"),
        ("config.providers.env.param.allowlist.pattern", "${env:SECRET}"),
    ],
)
def test_a_value_that_cannot_be_is_not_told(setting: str, secret: str) -> None:
    reference = "${env:SECRET}["
    given = ENV | {setting: "${env:SECRET}" if not setting.startswith("config") else reference}
    with pytest.raises(ConfigError) as caught:
        read(given, {"SECRET": secret})
    assert setting in caught.value.line and "${env:SECRET}" in caught.value.line
    assert f" {secret}" not in caught.value.line.replace("[-1", "").replace("${env:SECRET}", "")
    assert caught.value.__cause__ is None or secret not in str(caught.value.__cause__)


def test_what_was_not_provided_is_told_as_ever() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value three for configuration num\.partitions"):
        read(ENV | {"num.partitions": "three", "broker.rack": "${env:RACK}"}, {"RACK": "r"})


def test_later_refusals_hide_it_too() -> None:
    settings = read(ENV | {"broker.rack": "a${env:RACK}"}, {"RACK": "rack-name"})
    assert settings.provided.hide("no rack arack-name here") == "no rack a${env:RACK} here"
    assert "rack-name" not in repr(settings.provided)


def test_a_file_that_cannot_be_read_is_named_with_the_reason() -> None:
    with pytest.raises(ConfigError) as caught:
        read(FILE | {"broker.rack": "${file:/no/such:key}"})
    assert caught.value.line == "broker.rack: ${file:/no/such:key}: cannot read /no/such: No such file or directory"


def test_dynamic_settings_lie_over_resolved_ones() -> None:
    static = read(ENV | {"broker.rack": "${env:RACK}"}, {"RACK": "r1"})
    assert Layers(static, {"log.cleaner.threads": "2"}).settings.broker_rack == "r1"
