"""What a store server is started with: made from settings by the command, or directly by a supervisor.

Rules: a plain value; files are read by the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.store_server import StoreServerSettings

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 2181
FRAME_BYTES_MAX = 0xFFFFF


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """A port with TLS: its stores are files of type PEM, PKCS12 or JKS. `client_auth` is need, want or none."""

    port: int
    host: str
    key_store: str
    key_password: str | None = field(default=None, repr=False)
    trust_store: str | None = None
    trust_password: str | None = field(default=None, repr=False)
    client_auth: str = "need"
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class StoreServerOptions:
    """`folder` is that of the file. Port 0 is a free one; None opens no port without TLS. An empty host is every interface.
    Timeouts of None are 2 and 20 ticks."""

    folder: str
    host: str = DEFAULT_HOST
    port: int | None = DEFAULT_PORT
    tls: TlsOptions | None = None
    tick_ms: int = 2_000
    session_timeout_min_ms: int | None = None
    session_timeout_max_ms: int | None = None
    connections_max: int = 60
    frame_bytes_max: int = FRAME_BYTES_MAX
    super_digest: str | None = None
    sasl_passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    sasl_super_user: str | None = None
    x509_super_user: str | None = None

    @classmethod
    def of(cls, settings: StoreServerSettings) -> StoreServerOptions:
        least, most = settings.minSessionTimeout, settings.maxSessionTimeout
        assert settings.dataDir is not None
        return cls(
            folder=settings.dataDir,
            host=settings.clientPortAddress,
            port=settings.port,
            tls=_tls(settings),
            tick_ms=settings.tickTime,
            session_timeout_min_ms=None if least < 0 else least,
            session_timeout_max_ms=None if most < 0 else most,
            connections_max=settings.maxClientCnxns,
            frame_bytes_max=settings.jute_maxbuffer,
            super_digest=settings.DigestAuthenticationProvider_superDigest,
            sasl_passwords=settings.sasl_passwords,
            sasl_super_user=settings.superUser,
            x509_super_user=settings.X509AuthenticationProvider_superUser,
        )


def _tls(settings: StoreServerSettings) -> TlsOptions | None:
    if settings.secureClientPort is None:
        return None
    assert settings.ssl_keyStore_location is not None
    key_password, trust_password = settings.ssl_keyStore_password, settings.ssl_trustStore_password
    return TlsOptions(
        port=settings.secureClientPort,
        host=settings.secureClientPortAddress,
        key_store=settings.ssl_keyStore_location,
        key_password=None if key_password is None else key_password.value,
        trust_store=settings.ssl_trustStore_location,
        trust_password=None if trust_password is None else trust_password.value,
        client_auth=settings.ssl_clientAuth.lower(),
        versions=settings.ssl_enabledProtocols,
    )
