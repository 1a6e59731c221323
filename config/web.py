"""Settings of the web process: `barnabas.web.*` and where the schema registry is. What is a client's (`bootstrap.servers`,
`security.protocol`, `ssl.*`) stands in the same file, and is read by `client.settings.parsing`.

A broker's file may have them, too: `config.companion` says how.
Rules: pure. An unknown name that begins with `barnabas.web.` is an error: a slip could open what should be closed. Off loopback
the process is started with TLS, or behind a proxy that has a name, or not at all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from config.definition import BOOLEAN, HOUR_MS, INT, LIST, LONG, PASSWORD, STRING, MiB, Password, SettingTable, setting
from config.errors import HIDDEN, ConfigError, invalid_value
from config.validators import LOG_LEVELS, at_least, between, one_of
from runtime.suggestions import did_you_mean

PREFIX = "barnabas.web."
CLIENT_PREFIX = "barnabas.web.client."
"""In a broker's settings: behind it is the name of a client's setting, by which the process reaches the cluster."""
SAMPLING_PREFIX = "barnabas.web.sampling."
"""Behind it is the name of a client's setting of the principal that looks at the cluster for plots."""
OF_CLIENTS = (CLIENT_PREFIX, SAMPLING_PREFIX)
"""Behind these is any name of a client's setting."""
_LOGIN = {"sasl.jaas.config", "sasl.username", "sasl.password"}
"""Properties that say who logs in: one of its own replaces all of the process's."""
DEFAULT_PORT = 8082
PORT_MAX = 65_535
SECOND_MS = 1_000
_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104  they are compared
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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

    barnabas_log_format: str = setting(
        "barnabas.log.format", STRING, "auto", one_of("auto", "terminal", "text", "json"),
        doc="The form of log lines on standard error, as a broker's.")  # fmt: skip
    barnabas_log_level: tuple[str, ...] = setting(
        "barnabas.log.level", LIST, ("INFO",), LOG_LEVELS,
        doc="The least level that is logged, and LOGGER=LEVEL for single loggers, separated by commas.")  # fmt: skip
    barnabas_web_allowed_hosts: tuple[str, ...] = setting(
        "barnabas.web.allowed.hosts", LIST, (),
        doc="Names by which the page is reached besides that of barnabas.web.base.uri and those of loopback, with a port or "
        "for every port. A request with any other Host is refused: another site could have pointed its name here.")  # fmt: skip
    barnabas_web_base_uri: str = setting(
        "barnabas.web.base.uri", STRING, "",
        doc="The address by which browsers and HTTP clients reach the page, such as https://kafka.example.com. Links in "
        "responses begin with it, whatever a request says. Empty: http or https, barnabas.web.host and the port.")  # fmt: skip
    barnabas_web_connections_max: int = setting(
        "barnabas.web.connections.max", INT, 1_000, at_least(1),
        doc="HTTP connections at a time; beyond it new ones are closed.")  # fmt: skip
    barnabas_web_connections_max_idle_ms: int = setting(
        "barnabas.web.connections.max.idle.ms", INT, 60 * SECOND_MS, at_least(SECOND_MS),
        doc="Time after which a connection is closed on which no request begins.")  # fmt: skip
    barnabas_web_consumer_instance_timeout_ms: int = setting(
        "barnabas.web.consumer.instance.timeout.ms", INT, 300_000, at_least(1),
        doc="After how long a consumer of REST v2 that nobody uses is closed, and leaves its group.")  # fmt: skip
    barnabas_web_consumer_instances_max: int = setting(
        "barnabas.web.consumer.instances.max", INT, 100, at_least(0),
        doc="How many consumers of REST v2 may exist at a time. Each has connections of its own, and up to 1 MiB of records "
        "for each broker.")  # fmt: skip
    barnabas_web_consumer_request_max_bytes: int = setting(
        "barnabas.web.consumer.request.max.bytes", INT, 4 * MiB, at_least(1),
        doc="How many bytes of keys and values a read of REST v2 returns at most, but for the first record.")  # fmt: skip
    barnabas_web_consumer_request_timeout_ms: int = setting(
        "barnabas.web.consumer.request.timeout.ms", INT, 1_000, between(0, 300_000),
        doc="How long a read of REST v2 waits for records, unless its consumer was made with another time.")  # fmt: skip
    barnabas_web_follow_max: int = setting(
        "barnabas.web.follow.max", INT, 100, at_least(1),
        doc="How many live views of topics there are at most at a time.")  # fmt: skip
    barnabas_web_history_enable: bool = setting(
        "barnabas.web.history.enable", BOOLEAN, True,
        doc="Whether the process looks at the cluster every now and then, for plots of the last hour.")  # fmt: skip
    barnabas_web_history_interval_ms: int = setting(
        "barnabas.web.history.interval.ms", INT, 10_000, between(100, HOUR_MS),
        doc="How long the process waits between two looks, in milliseconds. It waits longer in a cluster that answers slowly: "
        "looking takes at most a tenth of the time.")  # fmt: skip
    barnabas_web_history_max_bytes: int = setting(
        "barnabas.web.history.max.bytes", LONG, 80 * MiB, at_least(MiB),
        doc="How much memory the plots of the last hour may take. What does not fit is left out, which the page "
        "says.")  # fmt: skip
    barnabas_web_host: str = setting(
        "barnabas.web.host", STRING, "127.0.0.1",
        doc="The address on which barnabas.web.port is opened. One that other machines reach needs TLS and a cluster whose "
        "users log in, or barnabas.web.trusted.proxies.")  # fmt: skip
    barnabas_web_metrics_urls: tuple[str, ...] = setting(
        "barnabas.web.metrics.urls", LIST, (), HttpAddresses(),
        doc="Where brokers tell their metrics for Prometheus, such as http://broker-1:9404/metrics, separated by commas: plots "
        "of response times come from there.")  # fmt: skip
    barnabas_web_oauth_client_id: str = setting(
        "barnabas.web.oauth.client.id", STRING, "",
        doc="The name by which barnabas.web.oauth.issuer knows the page.")  # fmt: skip
    barnabas_web_oauth_client_secret: Password | None = setting(
        "barnabas.web.oauth.client.secret", PASSWORD, None,
        doc="Its secret there, if it has one.")  # fmt: skip
    barnabas_web_oauth_issuer: str = setting(
        "barnabas.web.oauth.issuer", STRING, "",
        doc="The address of a provider of OpenID Connect, such as https://login.example.com/realms/main, where users of the "
        "page log in whose tokens the brokers take by OAUTHBEARER. The provider sends browsers back to /api/oauth/callback of "
        "barnabas.web.base.uri.")  # fmt: skip
    barnabas_web_oauth_scope: str = setting(
        "barnabas.web.oauth.scope", STRING, "openid",
        doc="What the page asks the provider for: openid, and what makes the token one for the brokers.")  # fmt: skip
    barnabas_web_port: int = setting(
        "barnabas.web.port", INT, DEFAULT_PORT, between(0, PORT_MAX),
        doc="The port of the page; 0 picks a free one.")  # fmt: skip
    barnabas_web_request_max_bytes: int = setting(
        "barnabas.web.request.max.bytes", LONG, 128 * MiB, at_least(1024),
        doc="The largest request in bytes; of a stream of records, which has no end, the largest record.")  # fmt: skip
    barnabas_web_request_timeout_ms: int = setting(
        "barnabas.web.request.timeout.ms", INT, 30 * SECOND_MS, at_least(SECOND_MS),
        doc="Time within which a client sends the headers of a request, or the next part of its body, and takes the next part "
        "of an answer; else its connection is closed.")  # fmt: skip
    barnabas_web_search_bytes_per_second: int = setting(
        "barnabas.web.search.bytes.per.second", INT, 32 * MiB, at_least(1),
        doc="How many bytes a second all searches, live views and downloads together read from brokers at most.")  # fmt: skip
    barnabas_web_search_max: int = setting(
        "barnabas.web.search.max", INT, 20, at_least(1),
        doc="How many searches and downloads run at most at a time.")  # fmt: skip
    barnabas_web_search_max_ms: int = setting(
        "barnabas.web.search.max.ms", INT, 600_000, at_least(1),
        doc="After how long a search pauses, until its user goes on with it.")  # fmt: skip
    barnabas_web_session_idle_ms: int = setting(
        "barnabas.web.session.idle.ms", LONG, 30 * 60_000, at_least(1_000),
        doc="Time after which somebody who does nothing on the page is logged out.")  # fmt: skip
    barnabas_web_ssl_cipher_suites: tuple[str, ...] = setting(
        "barnabas.web.ssl.cipher.suites", LIST, (), doc="As ssl.cipher.suites of a broker.")  # fmt: skip
    barnabas_web_ssl_enabled_protocols: tuple[str, ...] = setting(
        "barnabas.web.ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"),
        doc="The versions of TLS.")  # fmt: skip
    barnabas_web_ssl_key_password: Password | None = setting(
        "barnabas.web.ssl.key.password", PASSWORD, None, doc="The password of the private key.")  # fmt: skip
    barnabas_web_ssl_keystore_certificate_chain: str | None = setting(
        "barnabas.web.ssl.keystore.certificate.chain", STRING, None,
        doc="The certificates in PEM form, in place of a file.")  # fmt: skip
    barnabas_web_ssl_keystore_key: Password | None = setting(
        "barnabas.web.ssl.keystore.key", PASSWORD, None,
        doc="The private key in PEM form, in place of a file.")  # fmt: skip
    barnabas_web_ssl_keystore_location: str | None = setting(
        "barnabas.web.ssl.keystore.location", STRING, None,
        doc="The file with the key and the certificates of the page: PEM, PKCS12 or JKS. With it the page is served by https; "
        "a file that has changed is read again.")  # fmt: skip
    barnabas_web_ssl_keystore_password: Password | None = setting(
        "barnabas.web.ssl.keystore.password", PASSWORD, None, doc="The password of this file.")  # fmt: skip
    barnabas_web_ssl_keystore_type: str | None = setting(
        "barnabas.web.ssl.keystore.type", STRING, None, doc="Its type, which is also seen from the file.")  # fmt: skip
    barnabas_web_trusted_proxies: tuple[str, ...] = setting(
        "barnabas.web.trusted.proxies", LIST, (),
        doc="Addresses of proxies in front, or networks such as 10.1.0.0/16: what they say in X-Forwarded-* about the client "
        "is believed. Off loopback without TLS and login only they may connect.")  # fmt: skip
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

    sampling: Mapping[str, str]
    """The client's properties of the principal that looks at the cluster for plots: what has the prefix barnabas.web.sampling.,
    and the process's own for all else; empty where nothing has the prefix."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError, also for an unknown name."""
        super().__init__({name: value for name, value in given.items() if name in self.definitions})
        self.__dict__["sampling"] = _sampling(given)
        for name in given:
            if name.startswith(PREFIX) and name not in self.definitions and not name.startswith(OF_CLIENTS):
                raise ConfigError(f"unknown setting {name}{did_you_mean(name, self.definitions)}")
        _ = self.trusted_networks  # refuses what is no network
        if self.barnabas_web_oauth_issuer:
            if not is_private(self.barnabas_web_oauth_issuer):
                raise ConfigError(f"barnabas.web.oauth.issuer={self.barnabas_web_oauth_issuer} is no https address")
            if not self.barnabas_web_oauth_client_id:
                raise ConfigError("barnabas.web.oauth.issuer needs barnabas.web.oauth.client.id")

    @property
    def has_tls(self) -> bool:
        return self.barnabas_web_ssl_keystore_location is not None or self.barnabas_web_ssl_keystore_key is not None

    @property
    def trusted_networks(self) -> tuple[Network, ...]:
        """The networks of trusted proxies. Raises ConfigError, but not after a successful start."""
        return tuple(_network(text) for text in self.barnabas_web_trusted_proxies)

    def accepts_proxies_alone(self, *, has_login: bool) -> bool:
        """Whether only trusted proxies may connect: anybody in the network could read along, or needs no login. `has_login`:
        users of the cluster log in. Raises ConfigError where none is trusted."""
        if is_loopback(self.barnabas_web_host) or (self.has_tls and has_login):
            return False
        if not self.barnabas_web_trusted_proxies:
            missing = [
                *([] if self.has_tls else ["barnabas.web.ssl.keystore.location encrypts what they send"]),
                *([] if has_login else ["security.protocol=SASL_SSL of the cluster has them log in"]),
            ]
            raise ConfigError(
                f"barnabas.web.host={self.barnabas_web_host} can be reached from other machines: {', and '.join(missing)}; or "
                "barnabas.web.trusted.proxies names the proxy that does it, and nobody else can connect"
            )
        return True

    def base_uri(self, port: int) -> str:
        """Return where the page is, opened on this port, without a slash at the end."""
        if self.barnabas_web_base_uri:
            return self.barnabas_web_base_uri.rstrip("/")
        host = self.barnabas_web_host
        shown = "localhost" if host in _EVERY_INTERFACE else f"[{host}]" if ":" in host else host
        return f"{'https' if self.has_tls else 'http'}://{shown}:{port}"


def has_login(given: Mapping[str, str], listener_protocol: str) -> bool:
    """Whether users of a process beside a broker log in. `given` are the broker's settings, and `listener_protocol` is that of
    its first listener."""
    return given.get(f"{CLIENT_PREFIX}security.protocol", listener_protocol).strip().upper().startswith("SASL")


def is_loopback(host: str) -> bool:
    """Whether an address of `barnabas.web.host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_private(url: str) -> bool:
    """Whether nobody on the way reads what goes to an address: it is of https, or stays on this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    )


def _network(text: str) -> Network:
    """Raises ConfigError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(f"barnabas.web.trusted.proxies: {error}") from None


def _sampling(given: Mapping[str, str]) -> dict[str, str]:
    own = {
        name.removeprefix(SAMPLING_PREFIX): value for name, value in given.items() if name.startswith(SAMPLING_PREFIX)
    }
    hidden = _LOGIN if own.keys() & _LOGIN else set()
    shared = {name: value for name, value in given.items() if not name.startswith(PREFIX) and name not in hidden}
    return {**shared, **own} if own else {}
