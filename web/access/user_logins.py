"""How users of the cluster log in, from what they give: a password, or a bearer token. Pure.

`sasl.mechanism` of the process names the mechanism of passwords; where it is OAUTHBEARER there are none. A bearer token is
always taken: whether the cluster takes one, its brokers say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from client.mechanisms import MECHANISMS
from client.settings.values import BearerSettings, LoginSettings
from security.sasl.mechanisms import OAUTHBEARER
from security.sasl.oauth_login import LoginToken
from security.sasl.oauth_token import decoded_part, name_of
from web.access.credentials import BadCredentials, PasswordCredentials, TokenCredentials
from web.access.identity import Identity

if TYPE_CHECKING:
    from client.settings.values import ClientSettings

CHARACTERS_MAX: Final = 1_000


class UserLogins:
    """`login` is that of the process: the mechanism, and where bearer tokens have the name of their user."""

    def __init__(self, client: ClientSettings) -> None:
        login = client.login
        self.is_needed = login is not None
        self.password_mechanism = None if login is None or MECHANISMS[login.mechanism].takes_token else login.mechanism
        """None: nobody logs in with a password."""
        self._bearer = (login and login.bearer) or BearerSettings()

    def identity(self, given: PasswordCredentials | TokenCredentials) -> Identity:
        """Return the user that somebody claims to be. Raises BadCredentials."""
        if isinstance(given, TokenCredentials):
            return self._of_token(given.token)
        if self.password_mechanism is None:
            raise BadCredentials("the cluster takes bearer tokens, not passwords")
        if not (_is_usable(given.user) and _is_usable(given.password)):
            raise BadCredentials("this user or password is none that a cluster can have")
        return Identity(LoginSettings(self.password_mechanism, given.user, given.password), given.user)

    def _of_token(self, token: str) -> Identity:
        claim = self._bearer.name_claim
        try:
            LoginToken.parse(token.encode(), claim)
            name = name_of(decoded_part(token.split(".")[1], "payload"), claim)
        except ValueError as error:
            raise BadCredentials(f"the bearer token: {error}") from None
        bearer = replace(BearerSettings(), token=token, name_claim=claim)
        return Identity(LoginSettings(OAUTHBEARER, bearer=bearer), name)


def _is_usable(text: str) -> bool:
    """Return whether a text fits into every mechanism: half a pair of surrogates is no UTF-8, and NUL separates in PLAIN."""
    return len(text) <= CHARACTERS_MAX and "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
