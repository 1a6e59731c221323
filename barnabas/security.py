"""A secured broker or cluster for tests and for trying things out: generated certificates, users with generated passwords.

`GeneratedSecurity` writes them into a folder, and has the settings of the brokers and of each user's clients. A folder that has
them already is used as it is. With TLS alone a user is known by a certificate with the user's name (CN=alice is the user alice;
`ssl.client.auth=requested`), with SASL by a password. The user `admin`, and the brokers, may do everything once an authorizer
is set.

    python -m barnabas.security FOLDER --user alice

Rules: the files are readable by their owner only; nothing of the server is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import ssl
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from barnabas.certificates import Authority
from barnabas.properties import write_private, write_properties

SSL, SASL_PLAINTEXT, SASL_SSL = "ssl", "sasl_plaintext", "sasl_ssl"
PROTOCOLS = (SSL, SASL_PLAINTEXT, SASL_SSL)
ADMIN = "admin"
BROKER = "broker"
HOSTS = ("localhost", "127.0.0.1", "::1")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MADE = "made.json"
_CERTIFICATE = "-----BEGIN CERTIFICATE"
_NAME = re.compile(r"""[^\s;=/"']+""")


def require_protocol(protocol: str) -> None:
    """Raises ValueError for an unknown protocol."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"security {protocol!r} must be one of {', '.join(PROTOCOLS)}")


class UnknownUserError(LookupError):
    """A user that was not asked for; the text says who was."""


def require_users(users: Iterable[str], passwords: Mapping[str, str]) -> None:
    """Raises ValueError for a name or a password that a login configuration cannot have."""
    for user in users:
        if not _NAME.fullmatch(user):
            raise ValueError(f"user {user!r}: a name has no spaces, and none of ; = / and quotes")
    for user, password in passwords.items():
        if not password or not password.isprintable():
            raise ValueError(f"the password of {user} must be one printable line")


class GeneratedSecurity:
    """`folder` must exist. `users` are those beside `admin`, `hosts` the names and addresses of the brokers. `passwords` are
    those of users, which are generated otherwise. Raises ValueError for an unknown protocol, and as `require_users`."""

    def __init__(
        self,
        protocol: str,
        folder: str | os.PathLike[str],
        users: Iterable[str] = (),
        hosts: Iterable[str] = HOSTS,
        *,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        require_protocol(protocol)
        given = passwords or {}
        wanted = tuple(dict.fromkeys((ADMIN, BROKER, *users, *given)))
        require_users(wanted, given)
        self.protocol = protocol
        self.folder = Path(folder)
        made = self._made()
        if made is None or not made.keys() >= set(wanted) or not made.items() >= given.items():
            made = self._make(wanted, given, tuple(hosts))
        self.passwords: Mapping[str, str] = made
        """By user."""

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def users(self) -> list[str]:
        """Everybody but the brokers."""
        return [user for user in self.passwords if user != BROKER]

    def path(self, name: str) -> str:
        """Return the path of a file: authority.pem, and USER.pem, with the key and the certificate of a user."""
        return str(self.folder / name)

    def broker_settings(self, listeners: Sequence[str] = (), *, in_line: bool = False) -> dict[str, str]:
        """Return the settings of a broker but for `listeners`: it has those with these names, the first of them for brokers, or
        one whose name is the protocol. With `in_line`, keys and certificates are in the settings in place of their files."""
        settings = {"super.users": f"User:{ADMIN};User:{BROKER}"}
        if listeners:
            protocols = ",".join(f"{name}:{self.protocol.upper()}" for name in listeners)
            settings |= {"listener.security.protocol.map": protocols, "inter.broker.listener.name": listeners[0]}
        else:
            settings["security.inter.broker.protocol"] = self.protocol.upper()
        if self.has_tls:
            settings |= self._stores(BROKER, in_line=in_line) | {
                "ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([^,]*)$/$1/,DEFAULT",
            }  # fmt: skip
        if self.has_sasl:
            known = " ".join(f"user_{user}={_quoted(password)}" for user, password in self.passwords.items())
            own = f"username={BROKER} password={_quoted(self.passwords[BROKER])}"
            settings |= {
                "sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM_MECHANISMS)),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            }
            for name in listeners or (self.protocol,):
                prefix = f"listener.name.{name.lower()}"
                settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_PLAIN} required {own} {known};"
                for mechanism in _SCRAM_MECHANISMS:
                    settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{_SCRAM} required;"
        return settings

    def client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's clients that are made of librdkafka (confluent-kafka). Raises UnknownUserError."""
        self._require(user)
        settings = {"security.protocol": self.protocol}
        if self.has_tls:
            settings["ssl.ca.location"] = self.path("authority.pem")
        if self.has_sasl:
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": self.passwords[user]}
        else:
            keys = self.path(f"{user}.pem")
            settings |= {"ssl.certificate.location": keys, "ssl.key.location": keys}
        return settings

    def java_settings(self, user: str = ADMIN, *, in_line: bool = False) -> dict[str, str]:
        """Return the settings of a user's clients in Java, also those of Apache Kafka's tools, and of `barnabas`. Raises
        UnknownUserError."""
        self._require(user)
        settings = {"security.protocol": self.protocol.upper()}
        if self.has_sasl:
            login = f'{_PLAIN} required username="{user}" password={_quoted(self.passwords[user])};'
            settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
            return settings | (self._trust(in_line=in_line) if self.has_tls else {})
        return settings | self._stores(user, in_line=in_line)

    def python_settings(self, user: str = ADMIN) -> dict[str, Any]:
        """Return the arguments of a user's clients of kafka-python and aiokafka. Raises UnknownUserError."""
        self._require(user)
        settings: dict[str, Any] = {"security_protocol": self.protocol.upper()}
        if self.has_tls:
            settings["ssl_context"] = context = ssl.create_default_context(cafile=self.path("authority.pem"))
            if not self.has_sasl:
                context.load_cert_chain(self.path(f"{user}.pem"))
        if self.has_sasl:
            login = {"sasl_plain_username": user, "sasl_plain_password": self.passwords[user]}
            settings |= {"sasl_mechanism": "PLAIN", **login}
        return settings

    def write_properties(self, listeners: Sequence[str] = ()) -> None:
        """Write broker.properties (`listeners` as in `broker_settings`), and USER.properties of each user: all that their
        clients need, in one file."""
        write_properties(self.folder / f"{BROKER}.properties", self.broker_settings(listeners, in_line=True))
        for user in self.users:
            write_properties(self.folder / f"{user}.properties", self.java_settings(user, in_line=True))

    def _require(self, user: str) -> None:
        """Raises UnknownUserError."""
        if user not in self.passwords:
            raise UnknownUserError(f"there is no user {user!r}; there are {', '.join(self.users)}")

    # --- files ---

    def _made(self) -> dict[str, str] | None:
        """Return the passwords that were made before for this protocol, by user."""
        try:
            protocol, passwords = json.loads((self.folder / _MADE).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        return passwords if protocol == self.protocol else None

    def _make(self, users: Sequence[str], given: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
        if self.has_tls:
            authority = Authority.create("barnabas")
            write_private(self.folder / "authority.pem", authority.certificate)
            for user in users:
                issued = authority.issue(user, hosts=hosts if user == BROKER else ())
                write_private(self.folder / f"{user}.pem", issued.both)
        passwords = {user: given.get(user) or secrets.token_urlsafe(24) for user in users}
        write_private(self.folder / _MADE, json.dumps([self.protocol, passwords]))  # the last: the others are there
        return passwords

    def _stores(self, user: str, *, in_line: bool) -> dict[str, str]:
        keys = {"ssl.keystore.type": "PEM"}
        if in_line:
            key, _, certificate = Path(self.path(f"{user}.pem")).read_text(encoding="ascii").partition(_CERTIFICATE)
            keys |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": _CERTIFICATE + certificate}
        else:
            keys["ssl.keystore.location"] = self.path(f"{user}.pem")
        return keys | self._trust(in_line=in_line)

    def _trust(self, *, in_line: bool) -> dict[str, str]:
        authority = self.path("authority.pem")
        if in_line:
            text = Path(authority).read_text(encoding="ascii")
            return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}


def _quoted(text: str) -> str:
    """Return a value of a login configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m barnabas.security",
        description="Make certificates, users and the properties of brokers and clients, where they are not there yet.",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--protocol", choices=PROTOCOLS, default=SASL_SSL)
    parser.add_argument("--host", action="append", default=[], help="a name or address of the brokers; may be repeated")
    parser.add_argument("--listener", action="append", default=[], help="of the brokers; the first is for themselves")
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="of the brokers: print how clients sign in there"
    )
    parser.add_argument("--user", action="append", default=[], help="a user beside admin; may be repeated")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    security = GeneratedSecurity(options.protocol, options.folder, options.user, options.host or HOSTS)
    security.write_properties(options.listener)
    print(f"broker.properties and those of {', '.join(security.users)} are in {options.folder}")  # noqa: T201  the answer
    if options.bootstrap_server is not None:
        print(f"\n{signing_in(security, options.bootstrap_server)}\n", flush=True)  # noqa: T201  the same
    return 0


def signing_in(security: GeneratedSecurity, bootstrap_server: str) -> str:
    """Return how clients sign in; passwords stay in their files."""
    lines = [f"{user:<12} {security.path(f'{user}.properties')}" for user in security.users]
    as_admin = f"--bootstrap-server {bootstrap_server} --command-config {security.path('admin.properties')}"
    examples = [f"barnabas topics list {as_admin}", f"barnabas cluster health {as_admin}"]
    return "\n".join(["user         client properties, also for the kafka-*.sh tools", *lines, "", *examples])


if __name__ == "__main__":
    sys.exit(main())
