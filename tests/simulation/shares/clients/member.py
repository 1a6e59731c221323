"""A member of a share group: it takes records, and accepts, releases, rejects, renews or forgets them.

Now and then it leaves, hangs, crashes and comes again; it acknowledges what its lock has run out for, and what somebody
else holds. When nothing is wrong any more it accepts all that it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from client.admin.steps import KeyKind
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from protocol.schema import Request, Response
from protocol.share_states import AcknowledgeType, ShareAcquireMode
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.shares.clients.session import Limits, ShareSession, Taken
from tests.simulation.shares.plan import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, SharePlan
from tests.simulation.shares.world import ShareWorld

JOINS, LEAVES = 0, -1
LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
NOT_THERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
IDLE_S = 0.3
MANY = Limits(500, 500, ShareAcquireMode.BATCH_OPTIMIZED, 1 << 20)
_KINDS: tuple[tuple[int, AcknowledgeType | None], ...] = (
    (80, AcknowledgeType.ACCEPT), (8, AcknowledgeType.RELEASE), (5, AcknowledgeType.REJECT),
    (4, AcknowledgeType.RENEW), (3, None),
)  # fmt: skip
"""(weight, what is said of a record); None: nothing, so that its lock runs out."""


class ShareMember:
    """`leaves`: how likely it does something else than read, at each look."""

    def __init__(self, world: ShareWorld, name: str, plan: SharePlan, *, leaves: float = 0.03) -> None:
        self.name = name
        self.group = plan.name
        self._world = world
        self._plan = plan
        self._leaves = leaves
        self._lives = 0

    async def run(self) -> None:
        """Ends when all is over."""
        world = self._world
        await find_coordinator(world, world.line(self.name), self.group)
        while not world.is_over:
            self._lives += 1
            membership = Membership(world, self.name, f"{self.name}.{self._lives}", self._plan)
            await membership.live(self._leaves)
            await self._between()
            await asyncio.sleep(0.0 if world.is_over else world.random.choice((0.1, 1.0, 4.0)))

    async def _between(self) -> None:
        """A membership is over, and all may be."""


class Membership:
    """From joining to leaving or crashing. Fits `Observer`."""

    def __init__(self, world: ShareWorld, name: str, member_id: str, plan: SharePlan) -> None:
        rng = world.random
        self._world = world
        self._member = member_id
        self._plan = plan
        self._group = plan.name
        self._cluster = ObservedCluster(world, name, self)
        self._version = rng.choice((1, 2, 2))
        self._sessions: dict[int, ShareSession] = {}
        self._assigned: list[TopicPartition] = []
        self._epoch = JOINS
        self._is_silent = False
        self._is_gone = False
        self._limits = Limits(
            max_records=rng.choice((1, 5, 20, 500)),
            batch_size=rng.choice((1, 10, 500)),
            mode=rng.choice(tuple(ShareAcquireMode)),
            max_bytes=rng.choice((3_000, 1 << 20)),
        )
        world.members_at[name] = member_id
        self._beats = world.loop.create_task(self._beat_always(), name=f"{member_id} beats")

    async def live(self, leaves: float) -> None:
        world, rng = self._world, self._world.random
        while not world.is_over:
            await self._poll()
            if world.is_quiet or rng.random() >= leaves:
                continue
            what = rng.choice(("leaves", "hangs", "crashes"))
            world.count(f"share members: {what}")
            world.loop.note(f"{self._member} {what}")
            if what == "hangs":
                await self._hang()
            elif what == "crashes":
                await self._end()
                return
            else:
                break
        for session in self._sessions.values():
            await session.acknowledge(closes=True)
        await self._end(says_so=True)

    async def _hang(self) -> None:
        """It stands still; half of the times its heartbeats go on."""
        rng = self._world.random
        self._is_silent = rng.random() < 0.5
        await asyncio.sleep(SESSION_TIMEOUT_MS / 1_000 * rng.choice((0.3, 0.9, 1.6)))
        self._is_silent = False

    async def _end(self, *, says_so: bool = False) -> None:
        self._is_gone = True
        self._beats.cancel()
        await asyncio.wait((self._beats,))
        if says_so and self._epoch > JOINS:
            self._epoch = LEAVES
            await self._beat()
        self._world.deliveries.session_over(self._member)
        await self._cluster.close()

    # --- the group ---

    async def _beat_always(self) -> None:
        while not self._is_gone:
            if not self._is_silent:
                await self._beat()
            await asyncio.sleep(HEARTBEAT_INTERVAL_MS / 1_000)

    async def _beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member,
            member_epoch=self._epoch,
            subscribed_topic_names=list(self._plan.topics) if self._epoch == JOINS else None,
        )
        if self._epoch == JOINS:
            self._world.epochs.joining(self._group, self._member)
        try:
            response = await self._cluster.send_to_coordinator(
                KeyKind.GROUP, self._group, request, ShareGroupHeartbeatResponse
            )
        except (OSError, KafkaError) as error:
            self._world.loop.note(f"{self._member}: heartbeat: {error}")
            self._cluster.forget_coordinator(KeyKind.GROUP, self._group)
            return
        code = ErrorCode.of(response.error_code)
        if code in NOT_THERE:
            self._cluster.forget_coordinator(KeyKind.GROUP, self._group)
        elif code in LOST:
            self._world.count("share members fenced")
            self._epoch, self._assigned = JOINS, []
        elif code is ErrorCode.NONE and request.member_epoch != LEAVES:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self._assigned = [
                    (self._world.name_of(row.topic_id), partition)
                    for row in response.assignment.topic_partitions
                    for partition in row.partitions
                ]

    def sending(self, broker_id: int, request: Request) -> object:
        world = self._world
        return world.group_term(broker_id, self._group), world.loop.time(), world.epochs.forgotten_count

    def unanswered(self, request: Request) -> None:
        """It is repeated, or in doubt."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        world = self._world
        if not isinstance(request, ShareGroupHeartbeatRequest):
            return
        assert isinstance(response, ShareGroupHeartbeatResponse)
        term, sent_s, forgotten_count = then
        code = ErrorCode.of(response.error_code)
        is_current = term == world.group_term(broker_id, self._group)
        is_current = is_current and world.is_group_coordinator(broker_id, self._group)
        if code is ErrorCode.NONE and request.member_epoch != LEAVES:
            world.count("heartbeats of share groups")
            if is_current:
                world.deliveries.alive(self._member, sent_s)
                if forgotten_count == world.epochs.forgotten_count:
                    world.epochs.answered(self._group, self._member, response.member_epoch)
        elif code not in (ErrorCode.NONE, *LOST) and code not in world.not_now:
            world.report(f"{self._member}: a heartbeat was answered {code!r}")

    # --- records ---

    async def _poll(self) -> None:
        """Fetch from each leader once, and say something of what was given."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for key in self._assigned:
            leader = self._cluster.leader_of(key)
            if leader is not None:
                by_leader.setdefault(leader, []).append(key)
        if not by_leader:
            await asyncio.sleep(IDLE_S)
            return
        sessions = {leader: self._session(leader) for leader in by_leader}
        limits = MANY if self._world.is_quiet else self._limits
        found = await asyncio.gather(*(each.fetch(by_leader[leader], limits) for leader, each in sessions.items()))
        if None in found:
            self._cluster.forget_topics(self._plan.topics)
        await asyncio.gather(
            *(self._work(session, taken or []) for session, taken in zip(sessions.values(), found, strict=True))
        )
        if not any(found):
            await asyncio.sleep(self._world.random.uniform(0.0, IDLE_S))

    def _session(self, leader: int) -> ShareSession:
        if leader not in self._sessions:
            self._sessions[leader] = ShareSession(
                self._world, self._cluster, self._group, self._member, leader, version=self._version
            )
        return self._sessions[leader]

    async def _work(self, session: ShareSession, taken: Sequence[Taken]) -> None:
        world, rng = self._world, self._world.random
        if taken and not world.is_quiet:
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.02, 0.3, self._plan.lock_ms / 1_000 * rng.choice((0.9, 1.2)))))
        renewed: list[Taken] = []
        for each in taken:
            kind = self._said_of()
            if kind is AcknowledgeType.RENEW and session.version < 2:
                kind = None
            if kind is AcknowledgeType.RENEW:
                renewed.append(each)
            if kind is not None:
                session.pending.setdefault(each.key, {})[each.offset] = kind
        if renewed or rng.random() < 0.5:
            await session.acknowledge()
        if renewed:
            await asyncio.sleep(self._plan.lock_ms / 1_000 * rng.choice((0.1, 0.6, 1.1)))
            for each in renewed:
                session.pending.setdefault(each.key, {})[each.offset] = AcknowledgeType.ACCEPT
        if not world.is_quiet and rng.random() < 0.05:
            await self._intrude(session)

    def _said_of(self) -> AcknowledgeType | None:
        if self._world.is_quiet:
            return AcknowledgeType.ACCEPT
        [(_, kind)] = self._world.random.choices(_KINDS, [weight for weight, _ in _KINDS])
        return kind

    async def _intrude(self, session: ShareSession) -> None:
        """Acknowledge what somebody else holds: it must not come into force."""
        world = self._world
        for key in self._assigned:
            found = world.deliveries.holder(self._group, key, other_than=self._member)
            if found is not None and not session.pending and session.is_open:
                world.count("acknowledgements of others' records")
                kind = world.random.choice((AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE))
                session.pending[key] = {found[0]: kind}
                await session.acknowledge()
                return
