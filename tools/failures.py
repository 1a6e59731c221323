"""Errors of clients as one line that says what failed and what helps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from client.errors import LoginRefused
from client.settings.values import SettingsError
from protocol.errors import ErrorCode, KafkaError
from runtime.command_line.failure import Failure

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RecordsError

_GIVES_COMMAND = "barnabas acls "
"""In the text of a denial by brokers of this project, to those who may know what is missing."""
_RIGHTS = (
    "`barnabas acls list` shows what is allowed; the brokers' log names the right that is missing, "
    "and the command that gives it"
)
_SLOW = (
    "a broker does not answer in time; `barnabas cluster health` tells more, and request.timeout.ms in the file of "
    "--command-config lets it take longer"
)
# By the name of the error on the wire.
_HINTS = {
    "TOPIC_AUTHORIZATION_FAILED": f"this user may not do it with this topic: {_RIGHTS}",
    "GROUP_AUTHORIZATION_FAILED": f"this user may not do it with this group: {_RIGHTS}",
    "CLUSTER_AUTHORIZATION_FAILED": f"this user may not do it on the cluster: {_RIGHTS}",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": f"this user may not do it with this transactional id: {_RIGHTS}",
    "UNKNOWN_TOPIC_OR_PARTITION": "`barnabas topics list` shows the topics",
    "TOPIC_ALREADY_EXISTS": "`barnabas topics describe` shows it, and --if-not-exists accepts it",
    "TRANSACTIONAL_ID_NOT_FOUND": "`barnabas transactions list` shows the transactions",
    "SECURITY_DISABLED": "the brokers have no authorizer: set authorizer.class.name",
    "NON_EMPTY_GROUP": "stop its consumers first; `barnabas groups describe` shows them",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the consumers that read it first; `barnabas groups describe` shows them",
    "GROUP_ID_NOT_FOUND": "`barnabas groups list` shows the groups",
    "OFFSET_OUT_OF_RANGE": "there is no such offset; `barnabas consume --last 1` shows the last record",
    "MESSAGE_TOO_LARGE": "--producer-property message.max.bytes=N lets the client send it, max.message.bytes of the topic and "
    "message.max.bytes of the brokers let them take it",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers first",
    "INVALID_REPLICATION_FACTOR": "`barnabas brokers list` shows how many brokers there are",
    "NOT_CONTROLLER": "there is no controller at the moment; `barnabas cluster health` tells more",
    "_MSG_TIMED_OUT": "a partition has no leader, or its broker does not answer; `barnabas cluster health` tells more",
    "_TIMED_OUT": _SLOW,
    "REQUEST_TIMED_OUT": _SLOW,
    "COORDINATOR_NOT_AVAILABLE": "`barnabas cluster health` shows whether the internal topics have leaders",
}
_REFUSED = ("_AUTHENTICATION", "_SSL")
UNREACHABLE = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE")


class Unreachable(Exception):
    """No broker has answered in time."""


def name_of(error: KafkaError | RecordsError) -> str:
    """Return Kafka's name of an error, or librdkafka's of one of its own, such as "_TIMED_OUT"."""
    if isinstance(error, KafkaError):
        return error.code.name
    code = error.code()
    return ErrorCode.of(code).name if code > 0 else str(error.name())


def told(error: KafkaError | RecordsError) -> str:
    """Return the text of an error, with what helps."""
    message = error.message if isinstance(error, KafkaError) else error.str().removeprefix("Broker: ")
    return with_hint(name_of(error), message)


def failure_of(
    error: Exception,
    servers: str | None,
    why_unreached: Callable[[], str | None] = lambda: None,
    told_as: Callable[[KafkaError | RecordsError], str] = told,
) -> Failure | None:
    """Return how an error is told that ends a command; `servers` are those that were asked. `why_unreached` tells more of
    them, `told_as` of errors of the cluster. None: it is a bug."""
    if isinstance(error, SettingsError):
        return Failure(str(error))
    if isinstance(error, KafkaError):
        return Failure(told_as(error))
    inner: RecordsError | None = error.args[0] if _is_of_records(error) else None
    if inner is not None and inner.name() not in (*UNREACHABLE, *_REFUSED):
        return Failure(told_as(inner))
    if isinstance(error, LoginRefused):
        why = why_unreached()
        return Failure(str(error) if why is None else f"{servers} refuses the connection: {why}")
    if inner is not None and inner.name() in _REFUSED:
        return Failure(f"{servers} refuses the connection: {why_unreached() or inner.str()}")
    if inner is None and not isinstance(error, Unreachable):
        return None
    why = why_unreached() or "is one running there, and is security.protocol right?"
    return Failure(f"no broker answers at {servers}: {why}")


def _is_of_records(error: Exception) -> bool:
    """Return whether it is an exception of the library for records, which is not loaded where none are sent or read."""
    library = sys.modules.get("confluent_kafka")
    return library is not None and isinstance(error, library.KafkaException)


def hint_of(name: str) -> str:
    """Return what helps against an error, by its name on the wire; empty where nothing general does."""
    return _HINTS.get(name, "")


def with_hint(name: str, message: str | None) -> str:
    """Return the text of an error by its name on the wire."""
    hint = None if message and _GIVES_COMMAND in message else hint_of(name)
    text = f"{name}: {message}" if message else name
    return f"{text} ({hint})" if hint else text
