"""Asks the brokers for a job's topics before Spark starts, so that what is missing is said within seconds.

A Metadata request (version 4, which every broker since 0.11 knows) to each bootstrap server until one answers. Where
connections are secured, the client of the Python source asks; for Spark's connector only the connection is checked then.

Rules: standard library only, but for secured connections. Topics to read are not created; for topics to write brokers that
create topics are asked to, as a producer would ask them.
Source: Kafka MetadataRequest, MetadataResponse.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping

from barnabas.pipeline.options import Options
from barnabas.pipeline.records import source_options

PLAINTEXT = "PLAINTEXT"
TIMEOUT_S = 5.0
"""How long one broker may take to connect, and to answer."""
_METADATA, _VERSION = 3, 4
_MAX_RESPONSE_BYTES = 100 << 20
_UNKNOWN_TOPIC, _NOT_AUTHORIZED, _INVALID_TOPIC = 3, 29, 17
_REASONS = {
    _UNKNOWN_TOPIC: "does not exist",
    _NOT_AUTHORIZED: "may not be read by this client",
    _INVALID_TOPIC: "is no topic name",
}


class NotReady(RuntimeError):
    """Brokers or topics are missing; the text says which."""


def check(options: Options, topics: Iterable[str], targets: Iterable[str]) -> None:
    """Raise NotReady unless a broker answers, and has `topics` and `targets`."""
    servers, settings = options.bootstrap_servers, options.command_config
    check_cluster(servers, settings, topics, with_connector=options.connector)
    if set(targets):
        check_cluster(servers, settings, targets, creates=True, with_connector=options.connector)


def check_cluster(
    servers: str,
    settings: Mapping[str, str],
    topics: Iterable[str],
    *,
    creates: bool = False,
    with_connector: bool = False,
) -> None:
    """Raise NotReady unless one of `servers` answers, and has `topics`, or `creates` those that are missing."""
    names = sorted(set(topics))
    errors: dict[str, int] | None
    if _protocol(settings) != PLAINTEXT and not with_connector:
        errors = _ask_secured(servers, settings, names, creates=creates)
    else:
        errors = ask_first(servers, settings, names, creates=creates)
    if errors is None:
        return
    problems = [
        f"topic {name} {_REASONS.get(code, f'has error {code}')}" for name, code in errors.items() if code in _REASONS
    ]
    if problems:
        raise NotReady(f"{'; '.join(problems)} (brokers {servers})")


def ask_first(
    servers: str, settings: Mapping[str, str], names: list[str], *, creates: bool = False
) -> dict[str, int] | None:
    """Return the error code of each topic from the first broker that answers, None when only the connection was checked.
    Raises NotReady."""
    failures = []
    for address in servers.split(","):
        try:
            return _ask(address, settings, names, creates=creates)
        except (OSError, struct.error, IndexError) as error:
            reason = (
                "no answer in time"
                if isinstance(error, TimeoutError)
                else getattr(error, "strerror", None) or str(error)
            )
            failures.append(f"{address}: {reason}")
    raise NotReady(f"no broker answers: {'; '.join(failures)}")


def _ask(address: str, settings: Mapping[str, str], names: list[str], *, creates: bool) -> dict[str, int] | None:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        if _protocol(settings) != PLAINTEXT:
            return None
        connection.sendall(_request(names, creates=creates))
        size = struct.unpack(">i", _receive(connection, 4))[0]
        if not 4 <= size <= _MAX_RESPONSE_BYTES:
            raise ConnectionError("no Kafka broker, or a listener with another protocol")
        return topic_errors(_receive(connection, size))


def _protocol(settings: Mapping[str, str]) -> str:
    return settings.get("kafka.security.protocol", PLAINTEXT).upper()


def _ask_secured(servers: str, settings: Mapping[str, str], names: list[str], *, creates: bool) -> dict[str, int]:
    """Return the error code of each topic. Raises NotReady."""
    from barnabas.spark.client.topic_check import topic_codes  # noqa: PLC0415  needs the extra

    try:
        return topic_codes(source_options(settings, servers), names, creates=creates, timeout_s=TIMEOUT_S)
    except (ValueError, OSError) as error:
        raise NotReady(str(error)) from None


def _request(names: list[str], *, creates: bool) -> bytes:
    client_id = b"barnabas-pipeline"
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, len(client_id)) + client_id + struct.pack(">i", len(names))
    for name in names:
        body += struct.pack(">h", len(name)) + name.encode()
    body += bytes([creates])
    return struct.pack(">i", len(body)) + body


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(min(size - len(data), 1 << 16))
        if not chunk:
            raise ConnectionError("the connection was closed")
        data += chunk
    return bytes(data)


def topic_errors(response: bytes) -> dict[str, int]:
    """Return the error code of each topic in a Metadata response of version 4. Raises struct.error, IndexError."""
    at = 8  # correlation id, throttle time
    (brokers,) = struct.unpack_from(">i", response, at)
    at += 4
    for _ in range(brokers):
        at = _after_string(response, at + 4) + 4  # id, host, port
        at = _after_string(response, at)  # rack
    at = _after_string(response, at) + 4  # cluster id, controller
    (count,) = struct.unpack_from(">i", response, at)
    at += 4
    errors = {}
    for _ in range(count):
        (code,) = struct.unpack_from(">h", response, at)
        end = _after_string(response, at + 2)
        errors[response[at + 4 : end].decode("utf-8", "replace")] = code
        (partitions,) = struct.unpack_from(">i", response, end + 1)  # behind whether it is internal
        at = end + 5
        for _ in range(partitions):
            at += 10  # error, partition, leader
            for _ in range(2):  # replicas, in-sync replicas
                (replicas,) = struct.unpack_from(">i", response, at)
                at += 4 + 4 * replicas
    return errors


def _after_string(data: bytes, at: int) -> int:
    length: int = struct.unpack_from(">h", data, at)[0]
    return at + 2 + max(length, 0)
