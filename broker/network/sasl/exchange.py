"""How a client authenticates with SASL: which requests may come, in which order, and what each is answered.

    INITIAL -> HANDSHAKE_OR_VERSIONS -> HANDSHAKE -> AUTHENTICATE -> complete

ApiVersions may come first, once. SaslHandshake names the mechanism: after its v1 each token is in a SaslAuthenticate request,
after its v0 the tokens are bare frames. A client that authenticates again begins with SaslHandshake, and must keep its
mechanism and its principal.

Rules: pure. A client that has not authenticated yet learns as little as in Kafka: that its credentials are invalid, not
why. What it sends is decoded only when it is one of these three requests, but for a request in place of SaslAuthenticate, which
is decoded to be refused with ILLEGAL_SASL_STATE.
Source: Kafka SaslServerAuthenticator; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from broker.network.requests.large_requests import Undecoded
from broker.network.responses.error_responses import TOP_LEVEL, unsupported_api_versions
from broker.network.responses.versions_response import versions_response
from protocol.errors import ErrorCode, KafkaError
from protocol.header import RequestHeader, decode_request_header, encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import DecodeError
from security.sasl.mechanisms import AuthenticationFailed, Identity, MechanismTable, SaslServer

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from broker.network.routes import DispatchTable
    from protocol.schema import Response
    from runtime.disk.filesystem import Buffer

# A request that is refused in place of SaslAuthenticate may have so many elements: its sender is unknown.
MAX_REFUSED_ELEMENTS = 10_000
_SIZE_BYTES = 4
_TOKENS_IN_REQUESTS = 1
_KNOWS_LIFETIME = 1


class SaslFailure(Exception):
    """The exchange has ended without success. The text goes to the log. `response` is the last frame for the client; with
    `is_delayed` it is sent, and the connection closed, after connection.failed.authentication.delay.ms."""

    def __init__(self, reason: str, response: list[Buffer] | None = None, *, is_delayed: bool = True) -> None:
        super().__init__(reason)
        self.response = response
        self.is_delayed = is_delayed


@dataclass(frozen=True, slots=True)
class SaslRules:
    """How the clients of one listener authenticate. `max_reauth_ms` is connections.max.reauth.ms by mechanism, 0 for never;
    `max_receive_bytes` is the largest frame until then; within `timeout_ms` a client must have authenticated."""

    mechanisms: MechanismTable
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int
    failure_delay_ms: int
    timeout_ms: int

    @property
    def names(self) -> list[str]:
        return list(self.mechanisms)


class SaslSession(NamedTuple):
    """A completed authentication. `lifetime_ms` is for how long it holds, None for as long as the connection."""

    mechanism: str
    identity: Identity
    lifetime_ms: int | None


class _State(Enum):
    INITIAL = auto()
    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    OTHER_MECHANISM = auto()
    """The client wants to authenticate again with another mechanism: its next frame is refused."""


class SaslServerExchange:
    """One authentication of one connection. `session` is there when it is complete. `mechanism` is the one that the client has
    named, empty before. `knows_lifetime`: the client reads for how
    long it holds, and can authenticate again."""

    def __init__(
        self,
        rules: SaslRules,
        table: DispatchTable,
        client: ClientConnection,
        earlier: SaslSession | None = None,
    ) -> None:
        """`table` is what ApiVersions tells. `earlier` is what the client authenticates again."""
        self._rules = rules
        self._table = table
        self._client = client
        self._earlier = earlier
        self._state = _State.INITIAL
        self._has_requests = False
        self._server: SaslServer | None = None
        self.mechanism = ""
        self.knows_lifetime = False
        self.session: SaslSession | None = None

    @property
    def user(self) -> str:
        """The name that the client has claimed; empty before."""
        return "" if self._server is None else self._server.user

    def receive(self, frame: bytes, wall_ms: int) -> list[Buffer]:
        """Process a frame (without its length), and return the frame to send. Raises SaslFailure."""
        if self._state is _State.OTHER_MECHANISM:
            raise SaslFailure(f"SASL mechanism {self.mechanism} is not that of the first authentication")
        if self._state is not _State.AUTHENTICATE:
            return self._on_request(frame)
        return self._on_request_with_token(frame, wall_ms) if self._has_requests else self._on_token(frame, wall_ms)

    # --- before the tokens ---

    def _on_request(self, frame: bytes) -> list[Buffer]:
        try:
            header, position = decode_request_header(frame)
        except DecodeError as error:
            raise self._malformed(error) from error
        if header.api_key == ApiVersionsRequest.api_key:
            return self._on_api_versions(header, frame, position)
        if header.api_key != SaslHandshakeRequest.api_key:
            raise SaslFailure(f"{self._api_name(header)} before authentication", is_delayed=False)
        if not SaslHandshakeRequest.min_version <= header.api_version <= SaslHandshakeRequest.max_version:
            raise SaslFailure(f"SaslHandshake version {header.api_version} is not served", is_delayed=False)
        try:
            request = SaslHandshakeRequest.decode(frame, header.api_version, position)
        except DecodeError as error:
            raise self._malformed(error) from error
        response = self.handshake(request, header.api_version, header.correlation_id)
        return encode_response(response, header.api_version, header.correlation_id)

    def _on_api_versions(self, header: RequestHeader, frame: bytes, position: int) -> list[Buffer]:
        version = header.api_version
        served = ApiVersionsRequest.min_version, ApiVersionsRequest.max_version
        response: Response | None
        if self._state is _State.HANDSHAKE:
            raise SaslFailure("ApiVersions for a second time before authentication", is_delayed=False)
        if not served[0] <= version <= served[1]:
            self._state = _State.HANDSHAKE_OR_VERSIONS
            return encode_response(unsupported_api_versions(*served), 0, header.correlation_id)
        try:
            request = ApiVersionsRequest.decode(frame, version, position)
        except DecodeError as error:
            raise self._malformed(error) from error
        try:
            response = versions_response(request, version, self._client, self._table)
        except KafkaError as error:
            self._state = _State.HANDSHAKE_OR_VERSIONS
            response = TOP_LEVEL(request, version, error.code, error.own_message)
            assert response is not None
        else:
            self._state = _State.HANDSHAKE
        return encode_response(response, version, header.correlation_id)

    def handshake(self, request: SaslHandshakeRequest, version: int, correlation_id: int) -> SaslHandshakeResponse:
        """Begin the exchange of tokens of the mechanism that the client names. Raises SaslFailure."""
        rules, name = self._rules, request.mechanism
        factory = rules.mechanisms.get(name)
        if factory is None:
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=rules.names)
            raise SaslFailure(
                f"SASL mechanism {name!r} is not enabled", encode_response(refusal, version, correlation_id)
            )
        self.mechanism = name
        self._has_requests = version >= _TOKENS_IN_REQUESTS
        if self._earlier is not None and self._earlier.mechanism != name:
            self._state = _State.OTHER_MECHANISM
        else:
            self._server = factory()
            self._state = _State.AUTHENTICATE
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=rules.names)

    def _malformed(self, error: DecodeError) -> SaslFailure:
        if self._state is _State.INITIAL:
            reason = "no Kafka request: the client has another security protocol, or an old one of SASL (before KIP-43)"
            return SaslFailure(f"{reason}: {error}", is_delayed=False)
        return SaslFailure(f"malformed request before authentication: {error}", is_delayed=False)

    def _api_name(self, header: RequestHeader) -> str:
        handler = self._table.handler(header.api_key)
        return f"API key {header.api_key}" if handler is None else handler.api_name

    # --- tokens ---

    def _on_token(self, token: bytes, wall_ms: int) -> list[Buffer]:
        try:
            answer = self._step(token, wall_ms)
        except AuthenticationFailed as failure:
            raise self._failed(failure, None) from failure
        return [len(answer).to_bytes(_SIZE_BYTES, "big") + answer]

    def _on_request_with_token(self, frame: bytes, wall_ms: int) -> list[Buffer]:
        try:
            header, position = decode_request_header(frame)
            version = header.api_version
            if header.api_key != SaslAuthenticateRequest.api_key:
                raise self._unexpected(header, frame, position)
            if not SaslAuthenticateRequest.min_version <= version <= SaslAuthenticateRequest.max_version:
                raise SaslFailure(f"SaslAuthenticate version {version} is not served", is_delayed=False)
            request = SaslAuthenticateRequest.decode(frame, version, position)
        except DecodeError as error:
            raise self._malformed(error) from error
        self.knows_lifetime = self.knows_lifetime or version >= _KNOWS_LIFETIME
        try:
            answer = self._step(request.auth_bytes, wall_ms)
        except AuthenticationFailed as failure:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=self._client_message(failure),
                auth_bytes=b"",
            )
            raise self._failed(failure, encode_response(response, version, header.correlation_id)) from failure
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.NONE,
            error_message="",
            auth_bytes=answer,
            session_lifetime_ms=0 if self.session is None else self.session.lifetime_ms or 0,
        )
        return encode_response(response, version, header.correlation_id)

    def _step(self, token: bytes, wall_ms: int) -> bytes:
        """Raises AuthenticationFailed."""
        assert self._server is not None
        answer = self._server.step(token)
        identity = self._server.identity
        if identity is not None:
            self._check_principal(identity)
            self.session = SaslSession(self.mechanism, identity, self._lifetime_ms(identity, wall_ms))
        return answer

    def _check_principal(self, identity: Identity) -> None:
        if self._earlier is None:
            return
        before, now = self._earlier.identity.principal, identity.principal
        if before != now:
            message = (
                f"Cannot change principals during re-authentication from {before.principal_type}.{before.name}: "
                f"{now.principal_type}.{now.name}"
            )
            raise AuthenticationFailed("another principal than at first", client_message=message)

    def _lifetime_ms(self, identity: Identity, wall_ms: int) -> int | None:
        limit_ms = self._rules.max_reauth_ms.get(self.mechanism, 0)
        ends: list[int] = []
        if limit_ms > 0:
            ends.append(limit_ms)
        if identity.expires_ms is not None:
            ends.append(identity.expires_ms - wall_ms)
        return max(min(ends), 0) if ends else None

    def _client_message(self, failure: AuthenticationFailed) -> str:
        if failure.client_message is not None:
            return failure.client_message
        what = "authentication" if self._earlier is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self.mechanism}"

    def _failed(self, failure: AuthenticationFailed, response: list[Buffer] | None) -> SaslFailure:
        return SaslFailure(f"authentication failed: {self.mechanism}: {failure}", response)

    def _unexpected(self, header: RequestHeader, frame: bytes, position: int) -> SaslFailure:
        """Return the failure for another request in place of SaslAuthenticate. Raises DecodeError."""
        name, version = self._api_name(header), header.api_version
        reason = f"authentication failed: {self.mechanism}: {name} in place of SaslAuthenticate"
        route = self._table.route(header.api_key, version)
        if route is None and header.api_key == ApiVersionsRequest.api_key:
            illegal = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, api_keys=[])
            return SaslFailure(reason, encode_response(illegal, 0, header.correlation_id))
        if route is None:
            return SaslFailure(reason, is_delayed=False)
        request, _ = route.decode(frame, position, MAX_REFUSED_ELEMENTS)
        if isinstance(request, Undecoded):
            return SaslFailure(reason, is_delayed=False)
        message = f"Unexpected Kafka request of type {_java_name(name)} during SASL authentication."
        response = route.handler.errors(request, version, ErrorCode.ILLEGAL_SASL_STATE, message)
        if response is None:
            return SaslFailure(reason, is_delayed=False)
        return SaslFailure(reason, encode_response(response, version, header.correlation_id))


def _java_name(api_name: str) -> str:
    """`SaslHandshake` -> `SASL_HANDSHAKE`, as Kafka's messages name APIs."""
    parts: Iterable[str] = (f"_{each}" if each.isupper() else each.upper() for each in api_name)
    return "".join(parts).lstrip("_")
