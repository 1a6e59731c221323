"""Settings of the store server: names and defaults of ZooKeeper's zoo.cfg, as far as a server that is in no ensemble has them.

Rules: pure. A name that is not in the table is an error: a setting of an ensemble would be without effect.
Source: ZooKeeper administrator's guide; ServerConfig, QuorumPeerConfig, X509Util.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.definition import BOOLEAN, INT, INT_MAX, LIST, PASSWORD, STRING, Password, SettingTable, setting
from config.errors import ConfigError
from config.validators import LOG_LEVELS, at_least, between, one_of, one_of_ignoring_case
from runtime.suggestions import did_you_mean

SASL_USER_PREFIX = "barnabas.sasl.user."
"""A user of SASL DIGEST-MD5: the name is behind it, the value is the password."""
PORT_MAX = 65_535
DEFAULT_PORT = 2181
_OF_ENSEMBLES = ("server.", "initLimit", "syncLimit", "electionAlg", "peerType", "quorum.")


class StoreServerSettings(SettingTable):
    """`sasl_passwords` are by user."""

    DigestAuthenticationProvider_superDigest: str | None = setting(
        "DigestAuthenticationProvider.superDigest", STRING, None,
        doc="The super user as name:base64(sha1(name:password)); no access list binds who knows the password.")  # fmt: skip
    X509AuthenticationProvider_superUser: str | None = setting(
        "X509AuthenticationProvider.superUser", STRING, None,
        doc="The subject of a certificate whose client is a super user.")  # fmt: skip
    admin_enableServer: bool = setting(
        "admin.enableServer", BOOLEAN, False, doc="Accepted as false: there is no AdminServer.")  # fmt: skip
    barnabas_log_format: str = setting(
        "barnabas.log.format", STRING, "auto", one_of("auto", "terminal", "text", "json"),
        doc="The form of log lines.")  # fmt: skip
    barnabas_log_level: tuple[str, ...] = setting(
        "barnabas.log.level", LIST, ("INFO",), LOG_LEVELS, doc="The least level that is logged.")  # fmt: skip
    clientPort: int | None = setting(
        "clientPort", INT, None, between(0, PORT_MAX, optional=True),
        doc="The port of connections without TLS; 0 picks a free one. Without it and secureClientPort it is 2181.")  # fmt: skip
    clientPortAddress: str = setting(
        "clientPortAddress", STRING, "", doc="The address on which clientPort is opened; all if it is not set.")  # fmt: skip
    dataDir: str | None = setting("dataDir", STRING, None, doc="The folder of the store's file.")
    jute_maxbuffer: int = setting(
        "jute.maxbuffer", INT, 0xFFFFF, between(1024, INT_MAX), doc="The longest request in bytes.")  # fmt: skip
    maxClientCnxns: int = setting(
        "maxClientCnxns", INT, 60, at_least(0), doc="Connections from one address; 0 does not limit them.")  # fmt: skip
    maxSessionTimeout: int = setting(
        "maxSessionTimeout", INT, -1, at_least(-1),
        doc="The longest timeout of a session in ms; -1 is 20 ticks.")  # fmt: skip
    minSessionTimeout: int = setting(
        "minSessionTimeout", INT, -1, at_least(-1),
        doc="The shortest timeout of a session in ms; -1 is 2 ticks.")  # fmt: skip
    secureClientPort: int | None = setting(
        "secureClientPort", INT, None, between(0, PORT_MAX, optional=True),
        doc="The port of connections with TLS.")  # fmt: skip
    secureClientPortAddress: str = setting(
        "secureClientPortAddress", STRING, "",
        doc="The address on which secureClientPort is opened; all if it is not set.")  # fmt: skip
    ssl_clientAuth: str = setting(
        "ssl.clientAuth", STRING, "need", one_of_ignoring_case("NEED", "WANT", "NONE"),
        doc="Whether clients must show a certificate.")  # fmt: skip
    ssl_enabledProtocols: tuple[str, ...] = setting(
        "ssl.enabledProtocols", LIST, ("TLSv1.2", "TLSv1.3"), doc="The versions of TLS.")  # fmt: skip
    ssl_keyStore_location: str | None = setting(
        "ssl.keyStore.location", STRING, None, doc="The file with the server's key: PEM, PKCS12 or JKS.")  # fmt: skip
    ssl_keyStore_password: Password | None = setting("ssl.keyStore.password", PASSWORD, None, doc="Its password.")
    ssl_keyStore_type: str | None = setting(
        "ssl.keyStore.type", STRING, None, doc="Its type; it is seen from the file."
    )
    ssl_trustStore_location: str | None = setting(
        "ssl.trustStore.location", STRING, None, doc="The file with the certificates that are trusted.")  # fmt: skip
    ssl_trustStore_password: Password | None = setting("ssl.trustStore.password", PASSWORD, None, doc="Its password.")
    ssl_trustStore_type: str | None = setting(
        "ssl.trustStore.type", STRING, None, doc="Its type; it is seen from the file."
    )
    superUser: str | None = setting("superUser", STRING, None, doc="The user of SASL whom no access list binds.")
    tickTime: int = setting("tickTime", INT, 2_000, at_least(1), doc="A tick in ms, by which sessions expire.")

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError, also for an unknown name."""
        super().__init__(given)
        _check_names(given, self.definitions)
        least, most = self.minSessionTimeout, self.maxSessionTimeout
        if 0 <= most < least:
            raise ConfigError(f"minSessionTimeout={least} is more than maxSessionTimeout={most}")
        if self.secureClientPort is not None and self.ssl_keyStore_location is None:
            raise ConfigError("secureClientPort needs ssl.keyStore.location: a port with TLS needs a certificate")
        if self.admin_enableServer:
            raise ConfigError("admin.enableServer=true: the store server has no AdminServer")
        if not self.dataDir:
            raise ConfigError("dataDir is not set: --data-dir names the folder of the store's file")

    @property
    def sasl_passwords(self) -> dict[str, str]:
        return {
            name.removeprefix(SASL_USER_PREFIX): value
            for name, value in self.given.items()
            if name.startswith(SASL_USER_PREFIX)
        }

    @property
    def port(self) -> int | None:
        """The port without TLS; None for none."""
        if self.clientPort is None and self.secureClientPort is None:
            return DEFAULT_PORT
        return self.clientPort


def _check_names(given: Iterable[str], known: Mapping[str, object]) -> None:
    for name in given:
        if name in known or (name.startswith(SASL_USER_PREFIX) and name != SASL_USER_PREFIX):
            continue
        if name.startswith(_OF_ENSEMBLES):
            raise ConfigError(f"{name} is a setting of an ensemble: the store server is one process without replicas")
        raise ConfigError(f"unknown setting {name}{did_you_mean(name, known)}")
