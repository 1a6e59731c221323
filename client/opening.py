"""How a connection begins: the broker's versions, and the login, which is repeated before its session ends. Pure.

    ApiVersions  ->  SaslHandshake  ->  SaslAuthenticate, until the mechanism is complete

Each is a generator of steps, which a shell carries out: it sends a request and hands its response back, or computes what may
take milliseconds, such as the rounds of SCRAM.

Rules: no IO. Errors: LoginRefused, with the broker's reason and without a secret; KafkaError when the broker has no versions to
tell.
Source: KIP-35, KIP-511 (ApiVersions); KIP-152, KIP-368 (SASL); Kafka SaslClientAuthenticator, ReauthenticationInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from client.errors import LoginRefused
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.schema import Request
from security.sasl.mechanisms import AuthenticationFailed, SaslClientFactory

if TYPE_CHECKING:
    from runtime.randomness import Randomness

T = TypeVar("T")
SOFTWARE_NAME: Final = "barnabas"
RENEWAL_PERCENT: Final = 85
RENEWAL_SPREAD_PERCENT: Final = 10
"""A session is renewed after so much of its life, and up to as much more: clients that have connected together do not log in
again together."""
LARGEST_RESPONSE_BYTES: Final = 512 * 1024
"""Until the broker has shown who it is."""


class Ask(NamedTuple):
    """Send a request; its response is handed back."""

    request: Request
    version: int


class Compute(NamedTuple):
    """Call a function, on a thread where the event loop must not wait; its result is handed back. It raises OSError only."""

    function: Callable[[], Any]


Steps = Generator[Ask | Compute, Any, T]
VersionRanges = dict[int, tuple[int, int]]
"""The oldest and the newest version that a broker knows, by API key."""
_TRANSACTION_VERSION: Final = "transaction.version"


class Known(NamedTuple):
    """What a broker says at the begin of a connection. `transaction_version` is the cluster's level, 0 without features."""

    ranges: VersionRanges
    transaction_version: int = 0


class Login(NamedTuple):
    """How a connection logs in. `version` is that of SaslAuthenticate."""

    mechanism: str
    new_exchange: SaslClientFactory
    version: int = 1


def ask_versions() -> Steps[Known]:
    """Return what the broker knows. Raises KafkaError."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1")
    response: ApiVersionsResponse = yield Ask(request, 3)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:  # a broker before 2.4
        response = yield Ask(request, 0)
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), f"ApiVersions failed: {ErrorCode(response.error_code).name}")
    ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return Known(ranges, levels.get(_TRANSACTION_VERSION, 0))


def log_in(login: Login) -> Steps[int]:
    """Authenticate, for the first time or again. Return for how long the session holds in milliseconds, 0 for no end. Raises
    LoginRefused."""
    exchange = login.new_exchange()
    token: bytes | None = _checked(login, (yield Compute(lambda: _outcome(exchange.first))))
    handshake: SaslHandshakeResponse = yield Ask(SaslHandshakeRequest(mechanism=login.mechanism), 1)
    code = ErrorCode(handshake.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise LoginRefused(f"{login.mechanism} is not enabled, but {', '.join(handshake.mechanisms) or 'none'}")
    if code is not ErrorCode.NONE:
        raise LoginRefused(f"SaslHandshake failed: {code.message}")
    lifetime_ms = 0
    while token is not None:
        response: SaslAuthenticateResponse = yield Ask(SaslAuthenticateRequest(auth_bytes=token), login.version)
        if response.error_code:
            reason = response.error_message or ErrorCode(response.error_code).message
            raise LoginRefused(f"{login.mechanism}: {reason}")
        answer, lifetime_ms = response.auth_bytes, response.session_lifetime_ms
        token = _checked(login, (yield Compute(lambda answer=answer: _outcome(lambda: exchange.answer(answer)))))  # type: ignore[misc]
    return lifetime_ms


def renewal_pause_ms(lifetime_ms: int, randomness: Randomness) -> int | None:
    """Return after how long a session is renewed; None where it has no end."""
    if lifetime_ms <= 0:
        return None
    spread_ms = lifetime_ms * RENEWAL_SPREAD_PERCENT // 100
    return lifetime_ms * RENEWAL_PERCENT // 100 + randomness.randrange(0, spread_ms + 1)


def _outcome(compute: Callable[[], bytes | None]) -> bytes | AuthenticationFailed | LoginRefused | None:
    try:
        return compute()
    except (AuthenticationFailed, LoginRefused) as error:
        return error


def _checked(login: Login, outcome: bytes | AuthenticationFailed | LoginRefused | None) -> bytes | None:
    if isinstance(outcome, LoginRefused):
        raise outcome
    if isinstance(outcome, AuthenticationFailed):
        raise LoginRefused(f"{login.mechanism}: {outcome}") from outcome
    return outcome
