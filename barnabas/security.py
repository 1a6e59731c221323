"""A secured broker or cluster for tests and for trying things out: generated certificates, users with generated passwords.

`GeneratedSecurity` writes certificates and keys into a folder, and has the settings of the brokers and of each user's clients.
With TLS alone a user is known by a certificate with the user's name (CN=alice is the user alice; `ssl.client.auth=requested`),
with SASL by a password. The user `admin`, and the brokers, may do everything once an authorizer is set.

Rules: the folder is readable by its owner only; nothing of the server is imported.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from barnabas.certificates import Authority

SSL, SASL_PLAINTEXT, SASL_SSL = "ssl", "sasl_plaintext", "sasl_ssl"
PROTOCOLS = (SSL, SASL_PLAINTEXT, SASL_SSL)
ADMIN = "admin"
BROKER = "broker"
HOSTS = ("localhost", "127.0.0.1", "::1")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class GeneratedSecurity:
    """Made once; `folder` must exist. `users` are those beside `admin`. Raises ValueError for an unknown protocol."""

    def __init__(
        self, protocol: str, folder: str | os.PathLike[str], users: Iterable[str] = (), hosts: Iterable[str] = HOSTS
    ) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"security {protocol!r} must be one of {', '.join(PROTOCOLS)}")
        self.protocol = protocol
        self.folder = Path(folder)
        self.passwords: Mapping[str, str] = {
            user: secrets.token_urlsafe(24) for user in dict.fromkeys((ADMIN, BROKER, *users))
        }
        """By user."""
        if self.has_tls:
            authority = Authority.create("barnabas")
            self._write("authority.pem", authority.certificate)
            self._write(f"{BROKER}.pem", authority.issue(BROKER, hosts=tuple(hosts)).both)
            for user in self.passwords:
                if user != BROKER:
                    self._write(f"{user}.pem", authority.issue(user).both)

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    def path(self, name: str) -> str:
        """Return the path of a file: authority.pem, and USER.pem, with the key and the certificate of a user."""
        return str(self.folder / name)

    def broker_settings(self, listener: str | None = None) -> dict[str, str]:
        """Return the settings of a broker but for `listeners`; `listener` is the name of the secured one."""
        name = (listener or self.protocol).lower()
        settings = {
            "security.inter.broker.protocol": self.protocol.upper(),
            "super.users": f"User:{ADMIN};User:{BROKER}",
        }
        if self.has_tls:
            settings |= self._stores(BROKER) | {
                "ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([^,]*)$/$1/,DEFAULT",
            }  # fmt: skip
        if self.has_sasl:
            known = " ".join(f'user_{user}="{password}"' for user, password in self.passwords.items())
            own = f'username="{BROKER}" password="{self.passwords[BROKER]}"'
            settings |= {
                "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
                f"listener.name.{name}.plain.sasl.jaas.config": f"{_PLAIN} required {own} {known};",
            }  # fmt: skip
        return settings

    def client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's clients that are made of librdkafka (confluent-kafka)."""
        settings = {"security.protocol": self.protocol}
        if self.has_tls:
            settings["ssl.ca.location"] = self.path("authority.pem")
        if self.has_sasl:
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": self.passwords[user]}
        else:
            settings |= {
                "ssl.certificate.location": self.path(f"{user}.pem"),
                "ssl.key.location": self.path(f"{user}.pem"),
            }
        return settings

    def java_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's clients in Java, also those of Apache Kafka's tools."""
        settings = {"security.protocol": self.protocol.upper()}
        if self.has_sasl:
            login = f'{_PLAIN} required username="{user}" password="{self.passwords[user]}";'
            settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
            if self.has_tls:
                settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.path("authority.pem")}
        else:
            settings |= self._stores(user)
        return settings

    def _stores(self, user: str) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM", "ssl.keystore.location": self.path(f"{user}.pem"),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": self.path("authority.pem"),
        }  # fmt: skip

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
