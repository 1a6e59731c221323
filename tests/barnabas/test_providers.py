"""Settings from config providers, as an operator meets them: what is shown, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.barnabas.test_command import run, started

PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "env,file",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
}
SECRET = "hunter2-hunter2"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A reference to it."""
    (tmp_path / "secrets").write_text(f"password={SECRET}\n")
    return f"${{file:{tmp_path}/secrets:password}}"


def properties(folder: Path, **settings: str) -> str:
    path = folder / "server.properties"
    given = PROVIDERS | {name.replace("_", "."): value for name, value in settings.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return str(path)


def test_settings_shows_values_and_where_they_come_from_but_no_secrets(tmp_path: Path, secret: str) -> None:
    file = properties(tmp_path, broker_rack="${env:RACK}", ssl_key_password=secret, log_cleaner_threads="${env:NONE}1")
    answer = run("settings", "--all", file, environment={"RACK": "rack-1"})
    assert answer.returncode == 2
    assert "${env:NONE}" in answer.stderr
    file = properties(tmp_path, broker_rack="${env:RACK}", ssl_key_password=secret, my_own="${env:NONE}")
    answer = run("settings", "--all", file, environment={"RACK": "rack-1"})
    assert answer.returncode == 0
    assert "broker.rack = rack-1 (from ${env:RACK})" in answer.stdout
    assert f"ssl.key.password = [hidden] (from {secret})" in answer.stdout
    assert SECRET not in answer.stdout + answer.stderr
    assert "my.own: ${env:NONE} is taken as it stands: there is no such environment variable" in answer.stderr


def test_a_broker_starts_with_them_and_logs_no_secret(tmp_path: Path, secret: str) -> None:
    file = properties(tmp_path, broker_rack="${env:RACK}", ssl_key_password=secret, sasl_jaas_config="${env:NONE}")
    with started(tmp_path, file, environment={"RACK": "rack-1"}) as (_, banner):
        log = (tmp_path / "log").read_text()
    assert "sasl.jaas.config: ${env:NONE} is taken as it stands" in log
    assert "unknown setting" not in log
    assert SECRET not in banner + log


@pytest.mark.parametrize("setting", ["num_partitions", "advertised_listeners", "listeners"])
def test_a_secret_in_the_wrong_place_is_not_told(tmp_path: Path, secret: str, setting: str) -> None:
    file = properties(tmp_path, log_dirs=str(tmp_path / "data"), **{setting: secret})
    answer = run("start", file)
    assert answer.returncode == 2
    assert setting.replace("_", ".") in answer.stderr or secret in answer.stderr
    assert SECRET not in answer.stdout + answer.stderr


def test_another_class_stops_the_start(tmp_path: Path) -> None:
    answer = run(
        "start", properties(tmp_path), "--override", "config.providers.env.class=io.strimzi.kafka.EnvVarConfigProvider"
    )
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert "config.providers.env.class" in line and "io.strimzi.kafka.EnvVarConfigProvider" in line
    for name in ("EnvVarConfigProvider", "FileConfigProvider", "DirectoryConfigProvider"):
        assert f"{PACKAGE}.{name}" in line
