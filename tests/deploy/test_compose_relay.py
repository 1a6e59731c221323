"""The relay of docker-compose.yml starts with its variables, and is healthy where its figures are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from client.settings.process_settings import settings_given
from config.relay import PREFIX, RelaySettings

ROOT = Path(__file__).parents[2]


def test_it_reaches_the_brokers_and_its_health_is_asked_at_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    relay = services["relay"]
    for name, text in relay["environment"].items():
        monkeypatch.setenv(name, str(text))
    given = settings_given(None, [], RelaySettings.definitions, PREFIX)
    settings = RelaySettings(given)
    reached = [host for host, _ in parse_client(given, DEFAULTS).servers]
    assert reached == list(relay["depends_on"]) == ["broker1", "broker2", "broker3"]
    assert settings.barnabas_relay_metrics_host == "0.0.0.0"
    assert settings.barnabas_relay_metrics_port == relay["environment"]["KAFKA_BARNABAS_HTTP_PORT"]
    assert relay["ports"] == [f"127.0.0.1:19405:{settings.barnabas_relay_metrics_port}"]
