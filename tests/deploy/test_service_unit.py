"""The units in deploy/: systemd takes them, and their times fit those of the broker, and of the processes beside it."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.network.listening.open_ports import DRAIN_TIMEOUT_MS
from config.broker import BrokerSettings
from relay.process import STOP_S as RELAY_STOP_S
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.group import HELP_OPTIONS
from runtime.process.process_life import HANG_MS
from tests.tools.command_table import command_of
from web.serving import STOP_S

UNIT = Path(__file__).parents[2] / "deploy" / "barnabas.service"
OF_RELAY = UNIT.with_name("barnabas-relay.service")
OF_WEB = UNIT.with_name("barnabas-web.service")
COMMAND = "/opt/barnabas/bin/barnabas"


def service_of(path: Path) -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(path.read_text(encoding="utf-8"))
    return unit["Service"]


@pytest.fixture(scope="module")
def service() -> configparser.SectionProxy:
    return service_of(UNIT)


def seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)s", text)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("unit", [UNIT, OF_RELAY, OF_WEB], ids=["broker", "relay", "web"])
def test_systemd_takes_it(tmp_path: Path, unit: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is needed")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text(encoding="utf-8").replace(COMMAND, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


def test_its_commands_are_those_of_the_command_line(service: configparser.SectionProxy) -> None:
    for name in ("ExecStart", "ExecStartPre"):
        command, *arguments = shlex.split(service[name].removeprefix("-"))
        assert command == COMMAND
        found, rest = command_of(arguments)
        found.make_context(name, rest, **HELP_OPTIONS)  # click keeps them for other tests
    assert "start" in service["ExecStart"]


def test_a_stop_has_time_for_controlled_shutdown(service: configparser.SectionProxy) -> None:
    settings = BrokerSettings({})
    attempt_ms = settings.controller_socket_timeout_ms + settings.controlled_shutdown_retry_backoff_ms
    needed_ms = settings.controlled_shutdown_max_retries * attempt_ms + DRAIN_TIMEOUT_MS
    assert seconds(service["TimeoutStopSec"]) * 1000 > needed_ms


def test_the_broker_is_told_to_say_when_it_is_ready_and_ends_itself_first_when_it_hangs(
    service: configparser.SectionProxy,
) -> None:
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert seconds(service["WatchdogSec"]) * 1000 > HANG_MS


def test_it_is_not_started_again_with_settings_that_are_refused(service: configparser.SectionProxy) -> None:
    assert service["Restart"] == "on-failure"
    assert int(service["RestartPreventExitStatus"]) == EXIT_USAGE


def test_its_data_is_where_the_properties_have_it(service: configparser.SectionProxy) -> None:
    properties = (UNIT.parent / "server.properties").read_text(encoding="utf-8")
    assert f"\nlog.dirs=/var/lib/{service['StateDirectory']}/" in properties
    assert f"\n#barnabas.audit.log=/var/log/{service['LogsDirectory']}/" in properties
    assert service["ProtectSystem"] == "strict"


@pytest.mark.parametrize(("unit", "stop_s"), [(OF_WEB, STOP_S), (OF_RELAY, RELAY_STOP_S)], ids=["web", "relay"])
def test_the_processes_beside_it_are_told_and_stopped_as_a_broker(unit: Path, stop_s: float) -> None:
    service = service_of(unit)
    _, *arguments = shlex.split(service["ExecStart"])
    command, rest = command_of(arguments)
    command.make_context("ExecStart", rest, **HELP_OPTIONS)
    assert (service["Type"], service["NotifyAccess"], service["Restart"]) == ("notify", "main", "on-failure")
    assert seconds(service["WatchdogSec"]) * 1000 > HANG_MS
    assert seconds(service["TimeoutStopSec"]) > stop_s
    assert int(service["RestartPreventExitStatus"]) == EXIT_USAGE
