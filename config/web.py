"""Settings of the web process: `barnabas.web.*` and where the schema registry is. What is a client's (`bootstrap.servers`,
`security.protocol`, `ssl.*`) stands in the same file, and is read by `client.settings.parsing`.

Rules: pure. An unknown name that begins with `barnabas.web.` is an error: a slip could open what should be closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from config.definition import BOOLEAN, INT, LIST, PASSWORD, STRING, Password, SettingTable, setting
from config.errors import HIDDEN, ConfigError, invalid_value
from config.validators import between
from runtime.suggestions import did_you_mean

PREFIX = "barnabas.web."
DEFAULT_PORT = 8082
PORT_MAX = 65_535


class HttpAddresses:
    """A validator: each is http or https with a host, and without a login, which is a setting of its own."""

    def __str__(self) -> str:
        return "addresses of http or https, without a user name"

    def __call__(self, name: str, value: object) -> None:
        assert isinstance(value, tuple)
        for each in value:
            found = urlsplit(each)
            if found.scheme not in ("http", "https") or not found.hostname or "@" in found.netloc:
                shown = each if "@" not in found.netloc else HIDDEN
                raise invalid_value(name, shown, f"must be {self}")


class WebSettings(SettingTable):
    """The values of one process."""

    barnabas_web_base_uri: str = setting(
        "barnabas.web.base.uri", STRING, "",
        doc="The address by which browsers and HTTP clients reach the page, such as https://kafka.example.com. Links in "
        "responses begin with it, whatever a request says. Empty: http or https, barnabas.web.host and the port.")  # fmt: skip
    barnabas_web_host: str = setting(
        "barnabas.web.host", STRING, "127.0.0.1", doc="The address on which barnabas.web.port is opened.")  # fmt: skip
    barnabas_web_port: int = setting(
        "barnabas.web.port", INT, DEFAULT_PORT, between(0, PORT_MAX),
        doc="The port of the page; 0 picks a free one.")  # fmt: skip
    barnabas_web_write_enable: bool = setting(
        "barnabas.web.write.enable", BOOLEAN, False,
        doc="Whether the page and its HTTP interface may change anything, records included; else they only read.")  # fmt: skip
    schema_registry_basic_auth_user_info: Password | None = setting(
        "schema.registry.basic.auth.user.info", PASSWORD, None,
        doc="USER:PASSWORD for the schema registry.")  # fmt: skip
    schema_registry_url: tuple[str, ...] = setting(
        "schema.registry.url", LIST, (), HttpAddresses(),
        doc="Where the schema registry is, such as http://registry:8081, by which records of Avro, JSON Schema and Protobuf "
        "are decoded; of several, separated by commas, the first that answers. Empty: they are not decoded.")  # fmt: skip

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError, also for an unknown name."""
        super().__init__({name: value for name, value in given.items() if name in self.definitions})
        for name in given:
            if name.startswith(PREFIX) and name not in self.definitions:
                raise ConfigError(f"unknown setting {name}{did_you_mean(name, self.definitions)}")
