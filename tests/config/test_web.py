"""The settings of the web process."""

from __future__ import annotations

import pytest

from config.errors import ConfigError
from config.web import WebSettings


def test_the_rows_are_in_the_order_of_their_names() -> None:
    rows = [name for name in WebSettings.__annotations__ if name != "sampling"]
    assert len(rows) == len(WebSettings.definitions)
    assert rows == sorted(rows)


def test_where_the_schema_registry_is() -> None:
    assert WebSettings({}).schema_registry_url == ()
    given = "http://one:8081, https://two"
    assert WebSettings({"schema.registry.url": given}).schema_registry_url == ("http://one:8081", "https://two")
    for wrong in ("one:8081", "ftp://one", "http://", "http://user:secret@one"):
        with pytest.raises(ConfigError) as error:
            WebSettings({"schema.registry.url": wrong})
        assert "secret" not in str(error.value)


def test_the_principal_that_samples_has_the_settings_of_the_process_and_a_login_of_its_own() -> None:
    given = {
        "bootstrap.servers": "b:9092",
        "sasl.jaas.config": "...",
        "sasl.mechanism": "PLAIN",
        "barnabas.web.port": "0",
    }
    assert WebSettings(given).sampling == {}
    own = {"barnabas.web.sampling.sasl.username": "plots", "barnabas.web.sampling.sasl.password": "secret"}
    settings = WebSettings({**given, **own})
    assert settings.sampling == {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "plots",
        "sasl.password": "secret",
    }
    assert "secret" not in repr(settings)
