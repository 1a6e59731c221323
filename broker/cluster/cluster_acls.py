"""The ACLs of the cluster: read from the store into the authorizer, kept up to date by notifications, and changed for clients.

Rules: everything is read at the start and with each new session, then the notifications of the two folders are processed in
order; each broker removes old ones. At the start an ACL node that cannot be read stops the broker, because it may deny
something; later, the ACLs that were there before stay in force. An entry whose operation or permission is unknown has no
effect, and stays in its node.
Invariants: a change of this broker is in force here when it returns, and on the others when they have read its notification.
Source: Kafka AclAuthorizer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from config.errors import ConfigError
from metadata.store import acls as nodes
from metadata.store.acls import AclNode, AclRow, InvalidAclNode, words_of
from metadata.store.any_session import in_any_session
from metadata.store.change_nodes import PURGE_PAUSE_MS
from metadata.store.port import ConnectionLossError, SessionEvent, SessionExpiredError, StoreError, WatchEvent
from protocol.errors import ErrorCode, KafkaError
from security.access import Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclBinding, AclEntry, AclFilter, PatternType, PermissionType, ResourcePattern
from security.principal import Principal

if TYPE_CHECKING:
    from config.inter_broker_version import InterBrokerVersion
    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.slices import Slices
    from runtime.tasks import TaskScope
    from security.acls.index import AclIndex
    from security.authorizer import Authorizer

logger = logging.getLogger(__name__)

NO_SESSION = 0
PREFIXED_SINCE = "2.0-IV1"

_OPERATIONS = {words_of(each.name): each for each in Operation}
_PERMISSIONS = {words_of(each.name): each for each in PermissionType}


class DeletedAcl(NamedTuple):
    """`error` says why an ACL that a filter selects is still there, or may be."""

    binding: AclBinding
    error: KafkaError | None


class ClusterAcls:
    """The owner of the ACLs in `authorizer`. `start` before the first client is served."""

    def __init__(
        self, store: Store, authorizer: AclAuthorizer, tasks: TaskScope, clock: Clock, *, takes_prefixed: bool = True
    ) -> None:
        """`takes_prefixed`: whether every broker of the cluster understands prefixed patterns (KIP-290)."""
        self._store = store
        self._authorizer = authorizer
        self._tasks = tasks
        self._clock = clock
        self._takes_prefixed = takes_prefixed
        self._session_id = NO_SESSION
        self._purged_ms = clock.monotonic_ms()
        self._last_changes = dict.fromkeys(nodes.CHANGES, -1)
        self._watches = {kind: partial(self._on_watch, kind) for kind in nodes.CHANGES}
        self._one_at_a_time = asyncio.Lock()
        self._is_closed = False

    @property
    def index(self) -> AclIndex:
        """All ACLs that are in force here."""
        return self._authorizer.acls

    # --- reading, and processing notifications ---

    async def start(self) -> None:
        """Read everything, and process changes from then on. Raises StoreError, but retries when the session ends; ConfigError
        for a node that cannot be read."""
        self._store.subscribe(self._on_session)
        await in_any_session(lambda: nodes.ensure_acl_paths(self._store))
        try:
            await in_any_session(self._read_all)
        except InvalidAclNode as error:
            raise ConfigError(str(error)) from error
        logger.info("ACLs loaded: acls=%d", len(self._authorizer.acls))

    def close(self) -> None:
        """Stop processing changes."""
        self._is_closed = True

    async def _read_all(self) -> None:
        """Raises InvalidAclNode when everything else was read, StoreError."""
        async with self._one_at_a_time:
            session_id = self._store.session().session_id
            if session_id == self._session_id:
                return  # it was only disconnected: its watches remain
            # The positions first, then the ACLs: a change in between is read twice, never missed.
            for kind, watch in self._watches.items():
                self._last_changes[kind] = -1
                changes = await nodes.changes_after(self._store, kind, -1, watch)
                self._last_changes[kind] = changes[-1][0] if changes else -1
            named = await nodes.named_nodes(self._store)
            found = await nodes.read_nodes(self._store, named)
            for pattern in self._authorizer.acls.patterns - {_pattern(node) for node in found}:
                self._authorizer.replace(pattern, ())
            invalid = [error for error in (self._apply(node, rows) for node, rows in found.items()) if error]
            self._session_id = session_id
        if invalid:
            raise invalid[0]

    async def _follow(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            changes = await nodes.changes_after(self._store, kind, self._last_changes[kind], self._watches[kind])
            changed = dict.fromkeys(node for _, node in changes if node is not None)
            for node, rows in (await nodes.read_nodes(self._store, list(changed))).items():
                invalid = self._apply(node, rows)
                if invalid is not None:
                    logger.warning("ACLs not changed: path=%s error=%s", invalid.path, str(invalid))
            if changes:
                self._last_changes[kind] = changes[-1][0]

    def _apply(self, node: AclNode, rows: Sequence[AclRow] | InvalidAclNode) -> InvalidAclNode | None:
        if isinstance(rows, InvalidAclNode):
            return rows
        entries = []
        for row in rows:
            entry = _entry(row)
            if entry is None:
                logger.warning(
                    "ACL without effect: path=%s error=%s", node.path, f"unknown operation or permission in {row}"
                )
            else:
                entries.append(entry)
        if self._authorizer.replace(_pattern(node), entries):
            logger.info("ACLs changed: path=%s acls=%d", node.path, len(entries))
        return None

    async def _purge(self) -> None:
        """Remove old notifications. After a failure the next call, or another broker, removes them."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._purged_ms >= PURGE_PAUSE_MS:
            self._purged_ms = now_ms
            try:
                await nodes.purge_changes(self._store, self._clock.wall_ms())
            except StoreError as error:
                logger.info("old notifications of changed ACLs not removed: error=%s", type(error).__name__)

    async def _on_changes(self, kind: str) -> None:
        try:
            async with self._one_at_a_time:
                await self._follow((kind,))
        except StoreError as error:
            self._session_id = NO_SESSION  # the watch may be lost: everything is read with the next session
            logger.warning("changes of ACLs not watched: error=%s", type(error).__name__)
        else:
            await self._purge()

    async def _on_new_session(self) -> None:
        try:
            await self._read_all()
        except InvalidAclNode as error:
            logger.warning("ACLs not changed: path=%s error=%s", error.path, str(error))
        except StoreError as error:
            logger.warning("ACLs not read: error=%s", type(error).__name__)

    def _on_watch(self, kind: str, _event: WatchEvent) -> None:
        if not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_changes(kind), name="process changed ACLs")

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name="read ACLs")

    # --- changes for clients ---

    async def create(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Add ACLs; those that are there already stay. Returns for each why it may not have been added, or None."""
        by_pattern: dict[ResourcePattern, dict[AclRow, None]] = defaultdict(dict)
        for binding in bindings:
            by_pattern[binding.pattern][_row(binding.entry)] = None
        errors: dict[ResourcePattern, KafkaError] = {}
        for pattern, new in by_pattern.items():

            def add(before: Sequence[AclRow], new: Iterable[AclRow] = new) -> list[AclRow]:
                return [*before, *(row for row in new if row not in before)]

            try:
                if pattern.pattern_type is PatternType.PREFIXED and not self._takes_prefixed:
                    reason = f"Prefixed patterns require inter.broker.protocol.version of {PREFIXED_SINCE} or greater"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
                await self._update(pattern, add)
            except KafkaError as error:
                errors[pattern] = error
        return [errors.get(binding.pattern) for binding in bindings]

    async def delete(self, filters: Sequence[AclFilter], slices: Slices) -> list[list[DeletedAcl]]:
        """Remove the ACLs that filters select. Returns them by filter; one that several filters select is with the first."""
        deleted: list[list[DeletedAcl]] = [[] for _ in filters]
        for pattern, selecting in sorted((await self._selecting(filters, slices)).items()):

            def selected_by(entry: AclEntry | None, selecting: Sequence[int] = selecting) -> int | None:
                if entry is None:
                    return None
                return next((number for number in selecting if filters[number].entries.selects(entry)), None)

            def remove(before: Sequence[AclRow], selected_by: Callable[..., int | None] = selected_by) -> list[AclRow]:
                return [row for row in before if selected_by(_entry(row)) is None]

            error: KafkaError | None = None
            try:
                removed = await self._update(pattern, remove)
            except KafkaError as refusal:
                error, removed = refusal, [_row(entry) for entry in sorted(self._authorizer.acls.entries(pattern))]
            for row in removed:
                entry = _entry(row)
                number = selected_by(entry)
                if entry is not None and number is not None:
                    deleted[number].append(DeletedAcl(AclBinding(pattern, entry), error))
        return deleted

    async def _selecting(self, filters: Sequence[AclFilter], slices: Slices) -> dict[ResourcePattern, list[int]]:
        """Return the filters that select each pattern, by their numbers, in order."""
        found: dict[ResourcePattern, list[int]] = defaultdict(list)
        known = list(self._authorizer.acls.patterns)
        async for number, each in slices.over(enumerate(filters)):
            named = each.patterns.named
            if named:
                for pattern in named:
                    if nodes.is_possible_name(pattern.name):
                        found[pattern].append(number)
            else:
                async for pattern in slices.over(known):
                    if each.patterns.selects(pattern):
                        found[pattern].append(number)
        return found

    async def _update(self, pattern: ResourcePattern, edit: nodes.Edit) -> list[AclRow]:
        """Change a pattern's rows, in the store and here. Returns those that were there before. Raises KafkaError."""
        node = AclNode(pattern.resource_type.name, pattern.name, pattern.pattern_type.name)
        try:
            async with self._one_at_a_time:
                before, after = await nodes.update(self._store, node, edit)
                self._apply(node, after)
        except (ConnectionLossError, SessionExpiredError) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The store of the ACLs did not answer.") from error
        except InvalidAclNode as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        except StoreError as error:
            logger.warning("ACLs refused by the store: path=%s error=%s", node.path, type(error).__name__)
            reason = f"The store refused {node.path}: {type(error).__name__}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason) from error
        return before


async def follow_acls(
    authorizer: Authorizer, store: Store, tasks: TaskScope, clock: Clock, version: InterBrokerVersion
) -> ClusterAcls | None:
    """Return the ACLs of an authorizer that has some, when all are loaded. `version` is the cluster's. Raises StoreError,
    ConfigError."""
    if not isinstance(authorizer, AclAuthorizer):
        return None
    takes_prefixed = version.is_at_least(PREFIXED_SINCE)
    acls = ClusterAcls(store, authorizer, tasks, clock, takes_prefixed=takes_prefixed)
    await acls.start()
    return acls


def _pattern(node: AclNode) -> ResourcePattern:
    return ResourcePattern(ResourceType[node.resource_type], node.name, PatternType[node.pattern_type])


def _row(entry: AclEntry) -> AclRow:
    return AclRow(str(entry.principal), words_of(entry.permission.name), entry.host, words_of(entry.operation.name))


def _entry(row: AclRow) -> AclEntry | None:
    """Return None for an entry that can have no effect."""
    operation, permission = _OPERATIONS.get(row.operation), _PERMISSIONS.get(row.permission)
    if operation is None or permission is None:
        return None
    return AclEntry(Principal.parse(row.principal), row.host, operation, permission)
