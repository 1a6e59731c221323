"""docs/production.md: its commands, options, settings, alerts and links are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from config.acl_settings import READ_BY_AUTHORIZER
from config.broker import BrokerSettings
from tests.tools.command_table import command_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
INLINE = " ".join(re.findall(r"`[^`]+`", re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)))
# Settings of clients, of the service, of the kernel, and names of files.
OTHERS = {"group.instance.id", "enable.idempotence", "client.rack", "retention.ms", "server.properties", "broker.rack"}
CALLED = re.compile(r"(?:^|[\s`])barnabas ([a-z]+ [^\n;`]+)", re.MULTILINE)
COMMANDS = sorted({command.split("#")[0].strip() for command in CALLED.findall(f"{SHELL}\n{INLINE}")})


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_has_its_words_and_options(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "pipeline":
        assert (ROOT / "barnabas" / "pipeline" / f"{words[1]}.py").exists()
        return
    command, rest = command_of(words)
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= options


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 8


def test_settings_are_known() -> None:
    known = BrokerSettings.definitions.keys() | READ_BY_AUTHORIZER | OTHERS
    named = re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", PAGE)
    assert len(named) > 15
    assert [name for name in named if name not in known and not name.startswith("vm.")] == []


def test_links_lead_somewhere() -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", PAGE):
        text = (ROOT / "docs" / target).resolve().read_text(encoding="utf-8")
        titles = {
            re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)", text, re.MULTILINE)
        }
        assert not anchor or anchor in titles, f"{target}#{anchor}"


def test_figures_of_the_service_are_those_of_its_unit() -> None:
    unit = (ROOT / "deploy" / "barnabas.service").read_text(encoding="utf-8")
    named = re.findall(r"`([A-Z][A-Za-z]+=[^`]+)`", PAGE)
    assert len(named) == 3
    assert all(f"\n{line}\n" in unit for line in named)
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert all(f"alert: {name}\n" in alerts for name in re.findall(r"alert `([A-Za-z]+)`", PAGE))
