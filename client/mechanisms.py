"""The SASL mechanisms of a client, in one table: what each needs, and how it logs in. Pure.

Rules: no IO; nonces and tokens are handed in. `client.settings.logins` makes the settings of a login from given texts,
`broker.cluster.logins` those of brokers from their listeners.
Source: Kafka PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from client.settings.values import LoginSettings
from security.sasl.mechanisms import OAUTHBEARER, PLAIN, SaslClientFactory
from security.sasl.oauth_exchange import OAuthBearerClient
from security.sasl.plain import PlainClient
from security.sasl.scram import MECHANISMS as SCRAM
from security.sasl.scram import SaltedPasswords, ScramClient

Text = Callable[[], str]


@dataclass(frozen=True, slots=True)
class LoginMechanism:
    """`modules` are the classes of Kafka's login modules for it, the usual one first; `options` an example of its options.
    `takes_token`: a login is a bearer token, not a user with a password. `exchanges` makes what logs in, with a source of
    nonces and one of bearer tokens."""

    name: str
    modules: tuple[str, ...]
    options: str
    takes_token: bool
    exchanges: Callable[[LoginSettings, Text, Text], SaslClientFactory]

    @property
    def example(self) -> str:
        return f"sasl.jaas.config={self.modules[0]} required {self.options};"


def exchanges_of(login: LoginSettings, nonce: Text, token: Text) -> SaslClientFactory:
    """Return what makes the exchanges of a login. `nonce` returns what no one can guess, `token` the current bearer token."""
    return MECHANISMS[login.mechanism].exchanges(login, nonce, token)


def _plain(login: LoginSettings, _nonce: Text, _token: Text) -> SaslClientFactory:
    return lambda: PlainClient(login.username, login.password)


def _scram(login: LoginSettings, nonce: Text, _token: Text) -> SaslClientFactory:
    mechanism = SCRAM[login.mechanism]
    passwords = SaltedPasswords(mechanism, login.password)
    return lambda: ScramClient(mechanism, login.username, passwords, nonce(), is_token=login.is_token)


def _bearer(login: LoginSettings, _nonce: Text, token: Text) -> SaslClientFactory:
    extensions = {} if login.bearer is None else dict(login.bearer.extensions)
    return lambda: OAuthBearerClient(token, extensions)


_PACKAGE: Final = "org.apache.kafka.common.security"
_PLAIN_MODULE: Final = f"{_PACKAGE}.plain.PlainLoginModule"
_SCRAM_MODULE: Final = f"{_PACKAGE}.scram.ScramLoginModule"
_BEARER_MODULE: Final = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
_USER: Final = 'username="..." password="..."'
_CLIENT: Final = 'clientId="..." clientSecret="..."'
MECHANISMS: Final[Mapping[str, LoginMechanism]] = {
    each.name: each
    for each in (
        LoginMechanism(PLAIN, (_PLAIN_MODULE, _SCRAM_MODULE), _USER, False, _plain),
        *(LoginMechanism(name, (_SCRAM_MODULE,), _USER, False, _scram) for name in SCRAM),
        LoginMechanism(OAUTHBEARER, (_BEARER_MODULE,), _CLIENT, True, _bearer),
    )
}
"""By name, in the order in which messages name them."""
