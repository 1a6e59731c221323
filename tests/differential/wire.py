"""A blocking connection that speaks frames, and tells a closed connection from a missing answer."""

from __future__ import annotations

import itertools
import socket
import struct
from dataclasses import dataclass
from typing import Any, TypeVar

from protocol.fields import REQUIRED
from protocol.header import decode_response, encode_request
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Message, Request, Response

CLIENT_ID = "differential"

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class NoResponse:
    """What happened instead of an answer: "closed" or "no answer"."""

    outcome: str


def fitted(message: M, version: int) -> M:
    """A copy in which fields that `version` does not have are at their defaults."""
    values = {}
    for field in message.__fields__:
        value = getattr(message, field.name)
        if not field.versions.covers(version):
            if field.default is REQUIRED:
                values[field.name] = value
            continue
        if isinstance(value, Message):
            value = fitted(value, version)
        elif field.kind == "array" and value is not None:
            value = [fitted(item, version) if isinstance(item, Message) else item for item in value]
        values[field.name] = value
    return type(message)(**values)


class Wire:
    def __init__(self, host: str, port: int, client_id: str = CLIENT_ID) -> None:
        self._client_id = client_id
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._correlation_ids = itertools.count(1)

    def send(self, request: Request, version: int) -> int:
        """Queue a request without the fields that `version` lacks; answers its correlation id."""
        request = fitted(request, version)
        correlation_id = next(self._correlation_ids)
        self.send_raw(b"".join(encode_request(request, version, correlation_id, self._client_id)))
        return correlation_id

    def send_raw(self, data: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=10)
        self._socket.sendall(data)

    def receive_raw(self, timeout_s: float) -> bytes | NoResponse:
        """The next frame without its length."""
        assert self._socket is not None
        self._socket.settimeout(timeout_s)
        try:
            head = self._read(4)
            return self._read(struct.unpack(">i", head)[0])
        except TimeoutError:
            self.close()
            return NoResponse("no answer")
        except (EOFError, ConnectionError):
            self.close()
            return NoResponse("closed")

    def receive(self, response_type: type[Response], version: int, timeout_s: float = 10) -> Any:
        frame = self.receive_raw(timeout_s)
        if isinstance(frame, NoResponse):
            return frame
        return decode_response(frame, response_type, version)[1]

    def ask(self, request: Request, version: int, timeout_s: float = 10) -> Any:
        """The decoded response, or NoResponse."""
        try:
            self.send(request, version)
        except ConnectionError:
            self.close()
            return NoResponse("closed")
        return self.receive(request.response_type, version, timeout_s)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


class SaslWire(Wire):
    """A user's connection, by the mechanism PLAIN."""

    def __init__(self, host: str, port: int, user: str, password: str) -> None:
        super().__init__(host, port)
        self._token = f"\0{user}\0{password}".encode()

    def send_raw(self, data: bytes) -> None:
        if self._socket is None:
            super().send_raw(b"".join(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 0, CLIENT_ID)))
            assert self.receive(SaslHandshakeRequest.response_type, 1).error_code == 0
            super().send_raw(b"".join(encode_request(SaslAuthenticateRequest(auth_bytes=self._token), 1, 0, CLIENT_ID)))
            assert self.receive(SaslAuthenticateRequest.response_type, 1).error_code == 0
        super().send_raw(data)
