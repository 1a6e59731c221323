"""The web processes of docker-compose.yml start with their variables, and are published on loopback only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from client.settings.process_settings import settings_given
from config.web import PREFIX, WebSettings
from tests.web.running import app_client

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("service", "protocol"), [("web", "PLAINTEXT"), ("secure-web", "SASL_SSL")])
async def test_it_is_reached_through_docker_on_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, service: str, protocol: str
) -> None:
    found = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"][service]
    of_image = re.findall(r"^\s+(KAFKA_BARNABAS_WEB_HOST)=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for name, text in {**dict(of_image), **found["environment"]}.items():
        monkeypatch.setenv(name, str(text))
    given = settings_given(None, [], WebSettings.definitions, PREFIX)
    settings = WebSettings(given)
    assert settings.accepts_proxies_alone(has_login=protocol.startswith("SASL"))
    assert [port.rpartition(":")[0] for port in found["ports"]] == [
        settings.base_uri(0).replace("http://localhost", "127.0.0.1")
    ]
    assert given.get("security.protocol", "PLAINTEXT") == protocol
    assert len(parse_client(given, DEFAULTS, needs_user=False).servers) == 3
    names = {"Host": settings.base_uri(0).removeprefix("http://")}
    for peer, status in (("172.18.0.1", 200), ("203.0.113.7", 403)):
        async with app_client("127.0.0.1:1", given | {"bootstrap.servers": "127.0.0.1:1"}, peer=peer) as client:
            assert (await client.get("/ui/", headers=names)).status_code == status
