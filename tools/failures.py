"""Errors of clients as one line that says what failed and what helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import click
from confluent_kafka import KafkaException

from client.settings.values import SettingsError
from runtime.texts import visible
from tools.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_GIVES_COMMAND = "barnabas acls "
"""In the text of a denial by brokers of this project, to those who may know what is missing."""
_RIGHTS = (
    "`barnabas acls list` shows what is allowed; the brokers' log names the right that is missing, "
    "and the command that gives it"
)
# By the name of the error on the wire.
_HINTS = {
    "TOPIC_AUTHORIZATION_FAILED": f"this user may not do it with this topic: {_RIGHTS}",
    "GROUP_AUTHORIZATION_FAILED": f"this user may not do it with this group: {_RIGHTS}",
    "CLUSTER_AUTHORIZATION_FAILED": f"this user may not do it on the cluster: {_RIGHTS}",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": f"this user may not do it with this transactional id: {_RIGHTS}",
    "UNKNOWN_TOPIC_OR_PART": "`barnabas topics list` shows the topics",
    "TOPIC_ALREADY_EXISTS": "`barnabas topics describe` shows it, and --if-not-exists accepts it",
    "TRANSACTIONAL_ID_NOT_FOUND": "`barnabas transactions list` shows the transactions",
    "SECURITY_DISABLED": "the brokers have no authorizer: set authorizer.class.name",
    "NON_EMPTY_GROUP": "stop its consumers first; `barnabas groups describe` shows them",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the consumers that read it first; `barnabas groups describe` shows them",
    "GROUP_ID_NOT_FOUND": "`barnabas groups list` shows the groups",
    "OFFSET_OUT_OF_RANGE": "there is no such offset; `barnabas consume --last 1` shows the last record",
    "MSG_SIZE_TOO_LARGE": "--producer-property message.max.bytes=N lets the client send it, max.message.bytes of the topic and "
    "message.max.bytes of the brokers let them take it",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers first",
    "INVALID_REPLICATION_FACTOR": "`barnabas brokers list` shows how many brokers there are",
    "NOT_CONTROLLER": "there is no controller at the moment; `barnabas cluster health` tells more",
    "_MSG_TIMED_OUT": "a partition has no leader, or its broker does not answer; `barnabas cluster health` tells more",
    "_TIMED_OUT": "a broker does not answer in time; `barnabas cluster health` tells more, and request.timeout.ms in the file "
    "of --command-config lets it take longer",
    "COORDINATOR_NOT_AVAILABLE": "`barnabas cluster health` shows whether the internal topics have leaders",
}
_OTHER_UNREACHABLE = ("NoBrokersAvailable", "KafkaConnectionError", "NodeNotReadyError", "BrokerNotAvailableError")
"""What the other client library calls it."""
_REFUSED = ("_AUTHENTICATION", "_SSL")
UNREACHABLE = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE")


class Unreachable(Exception):
    """No broker has answered in time."""


class Failure(click.ClickException):
    """A command failed; its text is the reason."""

    exit_code = EXIT_FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"barnabas: {visible(self.format_message())}", file=file, err=file is None)


class Interrupted(Failure):
    """A Ctrl-C has ended a command; its text is how far it came."""

    exit_code = EXIT_INTERRUPTED


def told(error: KafkaError) -> str:
    """Return the text of an error, with what helps."""
    return with_hint(error.name(), error.str().removeprefix("Broker: "))


def failure_of(
    error: Exception,
    servers: str | None,
    why_unreached: Callable[[], str | None] = lambda: None,
    told_as: Callable[[KafkaError], str] = told,
) -> Failure | None:
    """Return how an error is told that ends a command; `servers` are those that were asked. `why_unreached` tells more of
    them, `told_as` of errors of the cluster. None: it is a bug."""
    if isinstance(error, SettingsError):
        return Failure(str(error))
    if type(error).__module__ == "kafka.errors" and type(error).__name__ not in _OTHER_UNREACHABLE:
        return Failure(_of_other_client(error))
    if not isinstance(error, KafkaException | Unreachable) and type(error).__module__ != "kafka.errors":
        return None
    inner: KafkaError | None = error.args[0] if isinstance(error, KafkaException) else None
    if inner is not None and inner.name() not in (*UNREACHABLE, *_REFUSED):
        return Failure(told_as(inner))
    why = why_unreached()
    if inner is not None and inner.name() in _REFUSED:
        return Failure(f"{servers} refuses the connection: {why or inner.str()}")
    return Failure(f"no broker answers at {servers}: {why or 'is one running there, and is security.protocol right?'}")


def with_hint(name: str, message: str | None) -> str:
    """Return the text of an error by its name on the wire."""
    hint = None if message and _GIVES_COMMAND in message else _HINTS.get(name)
    text = f"{name}: {message}" if message else name
    return f"{text} ({hint})" if hint else text


def _of_other_client(error: Exception) -> str:
    name = getattr(type(error), "message", None) or type(error).__name__
    return with_hint(str(name), ", ".join(str(argument) for argument in error.args))
