"""The settings of a process that is a client: which source comes first, and what is told of unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.settings.process_settings import settings_given
from config.errors import ConfigError
from config.web import PREFIX, WebSettings


def test_the_environment_comes_before_the_file_and_options_before_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "web.properties"
    path.write_text("barnabas.web.port=1\nbootstrap.servers=file:1\nbarnabas.web.host=::1\n")
    monkeypatch.setenv("KAFKA_BARNABAS_WEB_PORT", "2")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    monkeypatch.setenv("KAFKA_LOG_DIRS", "/data")
    given = settings_given(str(path), ["barnabas.web.port=3"], WebSettings.definitions, PREFIX)
    assert given == {"barnabas.web.port": "3", "bootstrap.servers": "environment:1", "barnabas.web.host": "::1"}


def test_what_is_unknown_or_wrong_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    given = settings_given(None, ["bootstrap.server=a:1", "barnabas.web.prot=1"], WebSettings.definitions, PREFIX)
    assert given == {"bootstrap.server": "a:1", "barnabas.web.prot": "1"}, "the table refuses its own"
    assert "unknown property bootstrap.server (is bootstrap.servers meant?)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="is not of the form name=value"):
        settings_given(None, ["barnabas.web.port"], WebSettings.definitions, PREFIX)
