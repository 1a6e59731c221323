"""What is written about clients: who was refused what, who has changed what, and who could not log in.

Rules: a log line for each denial at INFO, up to a limit a second, unless the client has only asked what it may do; one for each
permission at DEBUG, as Kafka's authorizer writes them. With `barnabas.audit.log` there is a file of JSON lines besides: one for
each denial, one for each failed login, and one or several for each request of administration, with what became of it. Nothing
has secrets: resources are named, their contents are not.
Invariant: an API of administration is audited wherever it is handled: its handler is wrapped once, in the table of handlers.
Source: Kafka AclAuthorizer.logAuditMessage; the file is ours.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode, KafkaError
from runtime.slices import Slices
from security.denial import Cause, Denied, resolution

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection, RequestFacts
    from broker.network.routes import Handler
    from broker.observability.audit_file import AuditFile
    from broker.observability.audited_request import Audit
    from runtime.clock import Clock
    from security.access import Operation, ResourceType

logger = logging.getLogger(__name__)

RESOURCES_PER_LINE = 100
DENIALS_PER_S = 1000
"""Log lines about denials in a second: a client that may do nothing, and asks for everything, fills no disk."""
NAME_CHARACTERS_MAX = 512
"""A longer name, which only a hostile client has, is cut."""


class AuditLog:
    """One object for a broker. `file` is None without `barnabas.audit.log`. Without a clock every denial is logged."""

    def __init__(self, clock: Clock | None = None, file: AuditFile | None = None) -> None:
        self._clock = clock
        self.file = file
        # Denials of this second that were logged, and those that were not.
        self._second = self._shown_count = self._hidden_count = 0

    async def open(self) -> None:
        """Open the file, if there is one. Raises OSError."""
        if self.file is not None:
            await self.file.open()

    async def close(self) -> None:
        if self.file is not None:
            await self.file.close()

    def reopen(self) -> bool:
        """Open the file anew, if there is one. Returns whether there is."""
        if self.file is not None:
            self.file.reopen()
        return self.file is not None

    # --- the authorizer's answers ---

    @property
    def logs_allowed(self) -> bool:
        return logger.isEnabledFor(logging.DEBUG)

    def denied(self, context: RequestFacts, denied: Denied, cause: Callable[[Denied], Cause]) -> None:
        """`context` is of the request that was refused, as a whole or for one resource. `cause` returns why, for the command
        that resolves it."""
        is_shown = self._may_log_denial()
        if not is_shown and self.file is None:
            return
        command = resolution(denied, cause(denied))
        operation, resource_type, name = denied.operation, denied.resource_type, denied.name
        if is_shown:
            logger.info(
                "operation denied: principal=%r operation=%s resource_type=%s resource_name=%r api=%s address=%s listener=%s "
                "resolution=%s",
                str(context.principal), operation.name, resource_type.name, name, context.api_name, context.client_host,
                context.listener, command,
            )  # fmt: skip
        if self.file is not None:
            resources = [(name, ErrorCode.NONE)]
            self._write("denied", context, context.api_name, operation, resource_type.name, resources, command=command)

    def allowed(self, context: RequestFacts, operation: Operation, resource_type: ResourceType, name: str) -> None:
        logger.debug(
            "operation allowed: principal=%r operation=%s resource_type=%s resource_name=%r api=%s address=%s listener=%s",
            str(context.principal), operation.name, resource_type.name, name, context.api_name, context.client_host,
            context.listener,
        )  # fmt: skip

    def _may_log_denial(self) -> bool:
        if self._clock is None:
            return True
        second = self._clock.monotonic_ms() // 1000
        if second != self._second:
            if self._hidden_count:
                logger.info("more operations denied, not shown: operations=%d", self._hidden_count)
            self._second, self._shown_count, self._hidden_count = second, 0, 0
        if self._shown_count == DENIALS_PER_S:
            self._hidden_count += 1
            return False
        self._shown_count += 1
        return True

    # --- logins ---

    def login_failed(self, client: ClientConnection, reason: str, *, mechanism: str, user: str = "") -> None:
        """A client has not shown who it is: with a SASL mechanism, or with `TLS`. `user` is the name that it has claimed, if
        any. In the log there is the line that its connection is closed."""
        if self.file is not None:
            line = self._begun("login_failed") | {
                "user": _cut(user),
                "address": client.peer.host,
                "listener": client.listener,
                "mechanism": _cut(mechanism),
                "reason": _cut(reason),
            }
            self.file.append(line)

    # --- administration ---

    def audited(self, handlers: Sequence[Handler[Any]]) -> list[Handler[Any]]:
        """Return the handlers, with those of administration wrapped if there is a file."""
        if self.file is None:
            return list(handlers)
        return [handler if handler.audit is None else self._audited(handler, handler.audit) for handler in handlers]

    def _audited(self, handler: Handler[Any], row: Audit) -> Handler[Any]:
        function = handler.function

        async def audited(request: Any, context: RequestFacts, *rights: Any) -> Any:
            try:
                response = await function(request, context, *rights)
            except Exception as error:
                code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
                failed = ((name, code) for name in row.asked(request))
                await self._acted(handler, row, request, context, failed, code)
                raise
            code = getattr(response, "error_code", ErrorCode.NONE)
            await self._acted(handler, row, request, context, row.done(request, response), code)
            return response

        return replace(handler, function=audited)

    async def _acted(
        self,
        handler: Handler[Any],
        row: Audit,
        request: Any,
        context: RequestFacts,
        results: Iterable[tuple[str, int]],
        code: int,
    ) -> None:
        """Write what became of a request of administration. `code` is that of the request as a whole."""
        assert self._clock is not None, "a file of administration needs a clock"
        rest, slices = iter(results), Slices(self._clock)
        resources = list(islice(rest, RESOURCES_PER_LINE))
        if not resources:
            resources = [(name, code) for name in islice(row.asked(request), RESOURCES_PER_LINE)]
        is_dry_run = bool(getattr(request, "validate_only", False))
        while True:
            self._write(
                "action", context, handler.api_name, row.operation, row.kind, resources, code, is_dry_run=is_dry_run
            )
            resources = list(islice(rest, RESOURCES_PER_LINE))
            if not resources:
                return
            await slices.yield_if_due()

    def _write(
        self,
        event: str,
        context: RequestFacts,
        api: str,
        operation: Operation,
        kind: str,
        resources: Iterable[tuple[str, int]],
        code: int = ErrorCode.NONE,
        *,
        command: str = "",
        is_dry_run: bool = False,
    ) -> None:
        assert self.file is not None
        line = self._begun(event) | {
            "principal": _cut(str(context.principal)),
            "address": context.client_host,
            "listener": context.listener,
            "client_id": _cut(context.client_id or ""),
            "api": api,
            "operation": operation.name,
            "resource_type": kind,
        }
        if event == "denied":
            line["resource"] = next((_cut(name) for name, _ in resources), "")
            line["resolution"] = command
        else:
            line["result"] = _error_name(code)
            line["resources"] = [{"name": _cut(name), "result": _error_name(each)} for name, each in resources]
            if is_dry_run:
                line["validate_only"] = True
        self.file.append(line)

    def _begun(self, event: str) -> dict[str, object]:
        """Return what each line begins with."""
        assert self._clock is not None
        moment = datetime.datetime.fromtimestamp(self._clock.wall_ms() / 1000, datetime.UTC)
        return {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "event": event,
        }


def _cut(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}..."


def _error_name(code: int) -> str:
    return ErrorCode(code).name
