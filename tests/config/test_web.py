"""The settings of the web process."""

from __future__ import annotations

import pytest

from config.errors import ConfigError
from config.web import WebSettings


def test_where_the_schema_registry_is() -> None:
    assert WebSettings({}).schema_registry_url == ()
    given = "http://one:8081, https://two"
    assert WebSettings({"schema.registry.url": given}).schema_registry_url == ("http://one:8081", "https://two")
    for wrong in ("one:8081", "ftp://one", "http://", "http://user:secret@one"):
        with pytest.raises(ConfigError) as error:
            WebSettings({"schema.registry.url": wrong})
        assert "secret" not in str(error.value)
