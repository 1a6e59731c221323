"""The store over a ZooKeeper ensemble: `metadata.store.port.Store`, one session after another.

    store.py            the store: sessions, operations, pipelines
    client.py           one session's connections, on the event loop
    session.py          one session, the state machine
    requests.py         operations as requests: chroot, access lists
    wire.py             requests and responses as bytes
    ensemble.py         the servers, and their order
    sasl.py             authentication
    options.py          the options in the settings
    session_file.py     the credentials of the session, for the next process after a kill

Rules:
- `session()` is one object for the life of one session. When the ensemble ends it, its operations and the store's are
  refused with SessionExpiredError, subscribers get EXPIRED, and a new session is created; the store's operations
  work again after CONNECTED.
- The credentials of a session are stored before it is used. `open_zookeeper_store` first closes the session of an earlier
  process on this directory, which removes its ephemeral nodes; nodes of other sessions are never removed.
- Operations wait for a connection as long as one session timeout, then raise ConnectionLossError.
- Pipelines have a window: a batch of any length uses bounded memory beyond its own requests and results, and does not
  delay other requests.
Source: Kafka ZooKeeperClient, KafkaZkClient; ZooKeeper programmer's guide.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from metadata.store.port import (
    ANY_VERSION,
    ConnectionLossError,
    Create,
    Delete,
    OperationResult,
    SessionEvent,
    SessionExpiredError,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
    WatchEvent,
    WatchKind,
    ensure_path,
)
from metadata.store.store_use import StoreUse
from metadata.store.zookeeper.client import ClientDependencies, Listeners, ZooKeeperClient, session_text
from metadata.store.zookeeper.ensemble import Rotation
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.requests import Requests
from metadata.store.zookeeper.sasl import DigestMd5
from metadata.store.zookeeper.session import ClientSession, Credentials, Outcome, SaslExchange, ZooKeeperRequest
from metadata.store.zookeeper.session_file import SessionFile
from runtime.tls.network import TlsNetwork

PIPELINE_REQUESTS_MAX: Final = 2_000
# A stopping broker does not wait longer for an ensemble that may have stopped.
CLOSE_TIMEOUT_MS: Final = 3_000
NEW_SESSION_PAUSE_S: Final = 0.1
CHROOT_ATTEMPTS: Final = 10
NONCE_BYTES: Final = 16

logger = logging.getLogger(__name__)


async def open_zookeeper_store(
    options: ZooKeeperOptions, dependencies: ClientDependencies, session_file: SessionFile
) -> ZooKeeperStore:
    """Open the store: begin a session, and create the chroot.

    A broker calls it when it has locked its log directories:

        store = await open_zookeeper_store(
            ZooKeeperOptions.of(settings, tls),
            ClientDependencies(dependencies.network, dependencies.clock, dependencies.randomness, store_tasks),
            LogDirectorySessionFile(directory, dependencies.filesystem, dependencies.disk.queue(f"{directory}#store")),
        )

    `store_tasks` must outlive the store. After SessionEvent.EXPIRED the broker registers again after CONNECTED
    (`registration.register_broker` over `store.session()`). Raises ConnectionError when no session began within the
    connection timeout, and OSError when the session file cannot be read.
    """
    store = ZooKeeperStore(options, dependencies, session_file)
    try:
        async with asyncio.timeout(options.connection_timeout_ms / 1000):
            await store.begin()
    except TimeoutError as error:
        reason = store.last_failure
        await store.abandon()
        raise ConnectionError(
            f"zookeeper: no session within {options.connection_timeout_ms} ms; last failure: {reason} "
            "(zookeeper.connect names the servers, zookeeper.connection.timeout.ms the time)"
        ) from error
    except BaseException:
        await store.abandon()
        raise
    return store


class _Operations:
    """`metadata.store.port.Tree` over the client that `_client` returns."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @property
    def _client(self) -> ZooKeeperClient:
        raise AssertionError("a subclass knows")

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        operation = Create(path, data, ephemeral, sequential)
        return cast(str, await self._client.call(self._requests.write(operation)))

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return cast(tuple[bytes, Stat], await self._client.call(self._requests.get(path, watch)))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return cast(Stat, await self._client.call(self._requests.write(SetData(path, data, version))))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._client.call(self._requests.write(Delete(path, version)))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return cast(Stat | None, await self._client.call(self._requests.exists(path, watch)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return cast(list[str], await self._client.call(self._requests.children(path, watch)))

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        return cast(list[OperationResult], await self._client.call(self._requests.multi(operations)))

    async def sync(self, path: str) -> None:
        await self._client.call(self._requests.sync(path))

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        outcomes = await _pipelined(
            self._client, len(paths), lambda index: self._requests.get(paths[index], watch, is_missing_none=True)
        )
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                raise outcome
        return cast(list[tuple[bytes, Stat] | None], outcomes)

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        outcomes = await _pipelined(
            self._client, len(transactions), lambda index: self._requests.multi(transactions[index])
        )
        for outcome in outcomes:
            if isinstance(outcome, SessionExpiredError | ConnectionLossError):
                raise outcome
        return cast(list[list[OperationResult] | StoreError], outcomes)


async def _pipelined(client: ZooKeeperClient, count: int, make: Callable[[int], ZooKeeperRequest]) -> list[Outcome]:
    """Return the outcomes of `count` requests, in order. After one without response no more are sent: the others get its
    error, too."""
    outcomes: list[Outcome] = [None] * count
    is_settled = asyncio.get_running_loop().create_future()
    next_index = under_way = 0
    failure: StoreError | None = None

    def submit_next() -> None:
        nonlocal next_index, under_way
        index = next_index
        next_index += 1
        under_way += 1

        def on_outcome(outcome: Outcome) -> None:
            nonlocal under_way, failure
            outcomes[index] = outcome
            under_way -= 1
            if isinstance(outcome, SessionExpiredError | ConnectionLossError):
                failure = failure or outcome
            if is_settled.done():
                return  # the caller was cancelled
            if failure is None and next_index < count:
                submit_next()
            elif under_way == 0:
                is_settled.set_result(None)

        client.submit(make(index), on_outcome)

    while next_index < min(count, PIPELINE_REQUESTS_MAX):
        submit_next()
    if count:
        await is_settled
    if failure is not None:
        outcomes[next_index:] = [failure] * (count - next_index)
    return outcomes


class ZooKeeperSession(_Operations):
    """`metadata.store.port.Session`: the operations, bound to one session."""

    def __init__(self, client: ZooKeeperClient, requests: Requests) -> None:
        super().__init__(requests)
        self.client = client
        self.session_id = client.session.credentials.session_id

    @property
    def _client(self) -> ZooKeeperClient:
        return self.client


class ZooKeeperStore(_Operations):
    """`metadata.store.port.Store`. Made by `open_zookeeper_store`."""

    def __init__(self, options: ZooKeeperOptions, dependencies: ClientDependencies, session_file: SessionFile) -> None:
        super().__init__(Requests(options.connect.chroot, is_secure=options.is_secure))
        self.use = StoreUse()
        self._options = options
        self._dependencies = (
            dependencies
            if options.tls is None
            else replace(dependencies, network=TlsNetwork(dependencies.network, options.tls))
        )
        self._file = session_file
        self._rotation = Rotation(options.connect.servers, dependencies.randomness)
        self._session: ZooKeeperSession | None = None
        self._upcoming: ZooKeeperClient | None = None  # a client whose session has not been published
        self._beginning: asyncio.Task[None] | None = None
        self._subscribers: list[Callable[[SessionEvent], None]] = []
        self._is_closed = False

    @property
    def _client(self) -> ZooKeeperClient:
        return self.session().client

    @property
    def last_failure(self) -> str:
        return "none" if self._upcoming is None else self._upcoming.last_failure

    def session(self) -> ZooKeeperSession:
        assert self._session is not None, "the store has not begun"
        return self._session

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        self._subscribers.append(callback)

    async def close(self) -> None:
        """End the session: its ephemeral nodes are removed if the ensemble responds within `CLOSE_TIMEOUT_MS`. If not, the
        session file remains, and the next start ends the session."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._stop_beginning()
        client = self._upcoming or self.session().client
        is_ended = await client.end(min(CLOSE_TIMEOUT_MS, self._options.session_timeout_ms))
        await self.session().client.stop()
        if not is_ended:
            logger.warning(
                "ZooKeeper session not closed, it ends by its timeout: session=%s",
                session_text(client.session.credentials.session_id),
            )
            return
        try:
            await self._file.remove()
        except OSError as error:
            logger.warning("session file not removed: error=%s", error)

    # --- sessions ---

    async def begin(self) -> None:
        """Close the session of an earlier process, and open the first one."""
        earlier = await self._file.load()
        if earlier is not None:
            await self._end_earlier(earlier)
        await self._begin_session()
        await self._make_chroot()

    async def abandon(self) -> None:
        """Close a store that could not open."""
        self._is_closed = True
        for client in (self._upcoming, self._session.client if self._session else None):
            if client is None:
                continue
            if client.session.is_connected:
                await client.end(CLOSE_TIMEOUT_MS)
            else:
                await client.stop()

    async def _end_earlier(self, earlier: Credentials) -> None:
        client = self._upcoming = self._new_client(earlier)
        client.start()
        await client.settled()
        was_alive = not client.session.is_over
        is_ended = await client.end(self._options.connection_timeout_ms)
        self._upcoming = None
        if was_alive:
            logger.info("ZooKeeper session of an earlier process closed: session=%s", session_text(earlier.session_id))
        if not is_ended:
            logger.warning(
                "ZooKeeper session of an earlier process not closed, it ends by its timeout: session=%s",
                session_text(earlier.session_id),
            )

    async def _begin_session(self) -> None:
        while not self._is_closed:
            client = self._upcoming = self._new_client(None)
            client.start()
            await client.settled()
            if not client.session.is_over:
                await self._write_down(client.session.credentials)
            if not client.session.is_over:
                self._upcoming = None
                self._session = ZooKeeperSession(client, self._requests)
                self._notify(SessionEvent.CONNECTED)
                return
            await client.stop()
            await asyncio.sleep(NEW_SESSION_PAUSE_S)

    def _new_client(self, credentials: Credentials | None) -> ZooKeeperClient:
        options = self._options
        session = ClientSession(
            options.session_timeout_ms,
            credentials,
            authentications=options.authentications,
            login=self._login if options.sasl is not None else None,
            in_flight_requests_max=options.in_flight_requests_max,
            use=self.use,
        )
        listeners = Listeners(self._fire, lambda event: self._on_session(client, event))
        client = ZooKeeperClient(session, self._rotation, self._dependencies, listeners)
        return client

    def _login(self) -> SaslExchange:
        assert self._options.sasl is not None
        return DigestMd5(self._options.sasl, self._dependencies.randomness.randbytes(NONCE_BYTES).hex())

    async def _write_down(self, credentials: Credentials) -> None:
        """Store the credentials. Without the file only a quick restart after a kill is impossible."""
        try:
            await self._file.save(credentials)
        except OSError as error:
            logger.warning("session file not written: error=%s", error)

    async def _make_chroot(self) -> None:
        chroot = self._options.connect.chroot
        if not chroot:
            return
        root = ZooKeeperSession(self._client, Requests("", is_secure=self._options.is_secure))
        for _ in range(CHROOT_ATTEMPTS):
            try:
                await ensure_path(root, chroot)
            except ConnectionLossError:
                continue  # the outcome is unknown: read again
            return
        raise ConnectionError(f"zookeeper: the path {chroot} could not be made")

    def _on_session(self, client: ZooKeeperClient, event: SessionEvent) -> None:
        if self._session is None or client is not self._session.client or self._is_closed:
            return
        if event is SessionEvent.EXPIRED:
            logger.warning("ZooKeeper session expired: session=%s", session_text(self._session.session_id))
            self._beginning = self._dependencies.tasks.spawn(self._begin_session(), name="zookeeper session")
        self._notify(event)

    async def _stop_beginning(self) -> None:
        if self._beginning is not None and not self._beginning.done():
            self._beginning.cancel()
            await asyncio.wait([self._beginning])

    def _notify(self, event: SessionEvent) -> None:
        for subscriber in self._subscribers:
            subscriber(event)

    def _fire(self, watches: list[Watch], kind: WatchKind, server_path: str) -> None:
        event = WatchEvent(kind, self._requests.path(server_path))
        for watch in watches:
            watch(event)
