"""This broker's registration in the cluster: the ephemeral node `/brokers/ids/N`, created again with each new session.

    joining --registered--> member --session expired--> not registered --new session: registered again--> member
       '---- the id is registered by another session: wait for its end; if it does not end, the broker stops ----'

Rules: the broker epoch is the czxid of the node, so it increases with each registration; `on_registered` gets it before
requests with it can arrive. A node of another session is never deleted: it is of an earlier run of this broker, and ends by
itself, or of another broker.
Source: Kafka KafkaController.RegisterBrokerAndReelect, KafkaZkClient.registerBroker; KIP-380.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import ConnectionLossError, SessionEvent, SessionExpiredError, StoreError
from metadata.store.registration import BrokerIdTakenError, register_broker

if TYPE_CHECKING:
    from metadata.store.port import Store
    from metadata.store.znodes import BrokerRegistration
    from runtime.clock import Clock
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.1
TAKEN_PAUSE_S = 0.25
LEAVE_TIMEOUT_S = 2.0
# The session of another process may have a longer timeout than ours: Apache Kafka's default.
TAKEN_TIMEOUT_MIN_MS = 18_000
NO_SESSION = 0


class Membership:
    """Registers this broker: at `join`, and again with each new session until `leave`.

    `describe` returns what to register, `on_registered` gets each broker epoch, `on_lost` the reason why the broker cannot be
    registered again.
    """

    def __init__(
        self,
        store: Store,
        describe: Callable[[], BrokerRegistration],
        on_registered: Callable[[int], None],
        on_lost: Callable[[str], None],
        *,
        clock: Clock,
        tasks: TaskScope,
        session_timeout_ms: int,
    ) -> None:
        self._store = store
        self._describe = describe
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._clock = clock
        self._tasks = tasks
        self._taken_timeout_ms = 2 * max(session_timeout_ms, TAKEN_TIMEOUT_MIN_MS)
        self._one_at_a_time = asyncio.Lock()
        self._session_id = NO_SESSION
        self._has_left = False

    @property
    def is_registered(self) -> bool:
        return self._session_id != NO_SESSION

    async def join(self) -> None:
        """Register. Raises BrokerIdTakenError if the id remains registered by another session."""
        await self._register()
        self._store.subscribe(self._on_session)

    async def leave(self) -> None:
        """Remove the registration: the session itself ends only when all logs are closed. If the store does not respond in
        time, the node is removed with the session."""
        self._has_left = True
        try:
            # Wait for a registration in progress: otherwise it would remain.
            async with asyncio.timeout(LEAVE_TIMEOUT_S), self._one_at_a_time:
                if not self.is_registered:
                    return
                session, self._session_id = self._store.session(), NO_SESSION
                await session.delete(znodes.broker_path(self._describe().broker_id))
        except (StoreError, TimeoutError) as error:
            logger.info("registration not removed: error=%s", type(error).__name__)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._session_id = NO_SESSION
        elif event is SessionEvent.CONNECTED and not self._has_left and not self._tasks.is_closed:
            self._tasks.spawn(self._register_again(), name="register again")

    async def _register_again(self) -> None:
        try:
            await self._register()
        except BrokerIdTakenError as error:
            self._on_lost(str(error))

    async def _register(self) -> None:
        async with self._one_at_a_time:
            end_ms = self._clock.monotonic_ms() + self._taken_timeout_ms
            is_logged = False
            while not self._has_left:
                session = self._store.session()
                if session.session_id == self._session_id:
                    return  # it was only suspended
                try:
                    epoch = await register_broker(session, session.session_id, self._describe())
                except (ConnectionLossError, SessionExpiredError) as error:
                    logger.info("registration not confirmed, retrying: error=%s", type(error).__name__)
                    await asyncio.sleep(RETRY_PAUSE_S)
                    continue
                except BrokerIdTakenError as error:
                    if self._clock.monotonic_ms() >= end_ms:
                        raise
                    if not is_logged:
                        is_logged = True
                        logger.warning("broker id is taken, waiting for its session to end: reason=%s", str(error))
                    await asyncio.sleep(TAKEN_PAUSE_S)
                    continue
                self._session_id = session.session_id
                logger.info("broker registered: broker_epoch=%d session=%#x", epoch, session.session_id)
                self._on_registered(epoch)
                return
