"""deploy/server.properties: it is valid, and what it shows as defaults are the defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.commands import settings_check
from config.acl_settings import READ_BY_AUTHORIZER
from config.broker import BrokerSettings
from config.definition import CLUSTER_WIDE

FILE = Path(__file__).parents[2] / "deploy" / "server.properties"
LINES = FILE.read_text(encoding="utf-8").splitlines()
SHOWN = re.compile(r"#([a-z][a-z.]+)=(.*)")
COMMENTED = {match[1]: match[2] for line in LINES if (match := SHOWN.fullmatch(line))}
SET = dict(line.split("=", 1) for line in LINES if line and not line.startswith("#"))
NAMES = [*COMMENTED, *SET]


def test_the_file_is_valid_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert settings_check.run(str(FILE), (), {}, as_json=False) == 0
    assert capsys.readouterr().out == f"{FILE}: {len(SET)} settings, 0 errors, 0 warnings\n"


def test_it_is_valid_with_every_line_in_use_that_goes_with_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = [line.removeprefix("#") if SHOWN.fullmatch(line) else line for line in LINES]
    names = (
        "advertised.listeners",
        "inter.broker.listener.name",
        "zookeeper.connect",
    )  # of listeners that it does not have
    (tmp_path / "server.properties").write_text("\n".join(line for line in used if not line.startswith(names)))
    assert settings_check.run(str(tmp_path / "server.properties"), (), {}, as_json=False) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_it_has_enough_of_what_operators_change_and_each_once() -> None:
    assert len(NAMES) > 45
    assert len(NAMES) == len(set(NAMES)) == sum(bool(SHOWN.fullmatch(line)) for line in LINES) + len(SET)


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_is_known_and_has_an_effect(name: str) -> None:
    assert BrokerSettings.definitions[name].effective or name in READ_BY_AUTHORIZER


@pytest.mark.parametrize("name", COMMENTED)
def test_what_is_commented_out_is_the_default_or_an_example_where_there_is_none(name: str) -> None:
    row = BrokerSettings.definitions[name]
    if row.default is None:
        row.parse(COMMENTED[name])
    else:
        assert COMMENTED[name] == row.format(row.default)


def test_those_that_are_said_to_change_while_brokers_run_are_all_that_do() -> None:
    head = " ".join(line.removeprefix("# ") for line in LINES[: LINES.index("")])
    said = re.search(r"name=value`: ([^`]*)\.$", head)
    assert said is not None
    changing = [name for name in COMMENTED if BrokerSettings.definitions[name].update is CLUSTER_WIDE]
    assert said[1].split(", ") == changing
