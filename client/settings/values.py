"""The settings of a client, parsed: frozen values, which may travel to other processes. Pure.

Rules: secrets are in no repr. Files are named here, and read by `client.settings.files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


class SettingsError(ValueError):
    """A setting of the client is missing or cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class StoreSource:
    """Where keys or certificates are: in the file `location`, or in line as `text`. `setting` is the name that was given."""

    setting: str
    location: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """Trusted certificates: PEM, PKCS12 or JKS; `location` may be a folder of PEM files."""

    store: StoreSource
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class KeySettings:
    """The certificate that a client shows, with its key: `store` has both (PEM, PKCS12 or JKS), or the certificates alone
    where `key` is another text or file in PEM form."""

    store: StoreSource
    key: StoreSource | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`trusted` is None for the authorities of the operating system, `keys` for a client that shows no certificate. `ciphers`
    are those of TLS 1.2 in OpenSSL's form, None for the usual ones."""

    trusted: TrustSettings | None = None
    keys: KeySettings | None = None
    versions: tuple[str, ...] = TLS_VERSIONS
    ciphers: str | None = None
    checks_certificate: bool = True
    checks_host: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files and folders that a context is made of: when one changes, a new context is needed."""
        return tuple(dict.fromkeys(source.location for source in self._sources() if source.location is not None))

    def _sources(self) -> Iterator[StoreSource]:
        if self.trusted is not None:
            yield self.trusted.store
        if self.keys is not None:
            yield self.keys.store
            if self.keys.key is not None:
                yield self.keys.key


@dataclass(frozen=True, slots=True)
class BearerSettings:
    """Where bearer tokens come from: `url` is a file, or an endpoint that gives one to the client `client_id`. None: `token` is
    the only one; without it nobody signs them, and `unsecured` are the options of Kafka's login module that describe them."""

    url: str | None = None
    token: str = field(default="", repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    encodes_header: bool = False
    name_claim: str = "sub"
    unsecured: tuple[tuple[str, str], ...] = ()
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_ms: int = 10_000
    tls: TlsSettings = TlsSettings()


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """`mechanism` is a name of `client.mechanisms`. With `is_token`, user and password are the id and the HMAC of a
    delegation token. OAUTHBEARER has `bearer` alone. A login that has none of these is only the mechanism by which users log
    in."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    bearer: BearerSettings | None = None

    @property
    def has_user(self) -> bool:
        return bool(self.username) or self.bearer is not None


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where the cluster is, who the client is, and how long it waits. `servers` are the brokers that are asked first."""

    servers: tuple[tuple[str, int], ...]
    client_id: str = "barnabas"
    tls: TlsSettings | None = None
    """None: nothing is encrypted."""
    login: LoginSettings | None = None
    """None: the client does not log in, or its certificate does."""
    request_timeout_ms: int = 30_000
    """How long a response may take."""
    connect_timeout_ms: int = 10_000
    """How long connecting may take."""
    api_timeout_ms: int = 60_000
    """For how long an operation is tried again."""
    retry_backoff_ms: int = 100
    """The first pause before an operation is tried again; each that follows is twice as long, up to the next one."""
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    """The first pause before a broker that was not reached is tried again; then as above."""
    reconnect_backoff_max_ms: int = 1_000
    receive_buffer_bytes: int = 1024 * 1024

    @property
    def protocol(self) -> str:
        """The security protocol, such as "SASL_SSL"."""
        plain = "SSL" if self.tls is not None else "PLAINTEXT"
        return plain if self.login is None else f"SASL_{plain}"

    @property
    def bootstrap_servers(self) -> str:
        """`servers` as text."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)
