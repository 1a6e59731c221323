"""ACL requests of clients: what is recorded of Apache Kafka is in `tests/differential`; here, large requests and failures."""

from __future__ import annotations

import asyncio

from broker.handlers.security.create_acls import create_acls
from broker.handlers.security.delete_acls import delete_acls
from broker.handlers.security.describe_acls import describe_acls
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from runtime.slices import SLICE_MS
from tests.async_tests import simulated
from tests.broker.acl_world import AclWorld
from tests.doubles.clock import ManualClock
from tests.simulation.loop import SimLoop

ROWS = 600
ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3


def creation(name: str, *, operation: int = READ, principal: str = "User:alice") -> AclCreation:
    return AclCreation(
        resource_type=TOPIC, resource_name=name, resource_pattern_type=LITERAL, principal=principal, host="*",
        operation=operation, permission_type=ALLOW,
    )  # fmt: skip


def describing(name: str | None = None, *, operation: int = ANY) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=ANY if name is None else TOPIC, resource_name_filter=name, pattern_type_filter=LITERAL,
        principal_filter=None, host_filter=None, operation=operation, permission_type=ANY,
    )  # fmt: skip


def selecting(name: str | None) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ANY if name is None else TOPIC, resource_name_filter=name, pattern_type_filter=LITERAL,
        principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip


class LoopTurns:
    """How often others had the loop, and how long they waited for it at most."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self._seen_ms = clock, clock.now_ms
        self.longest_ms = 0

    async def run(self) -> None:
        while True:
            self.longest_ms = max(self.longest_ms, self._clock.now_ms - self._seen_ms)
            self._seen_ms = self._clock.now_ms
            await asyncio.sleep(0)


async def test_others_run_between_the_rows_of_large_requests() -> None:
    clock = ManualClock(step_ms=1)  # each look at it, one a row, takes a millisecond
    async with AclWorld(clock) as world:
        broker = await world.broker()
        context = world.context(broker)
        turns = LoopTurns(clock)
        others = asyncio.ensure_future(turns.run())
        names = [f"t{number}" for number in range(ROWS)]
        made = await create_acls(CreateAclsRequest(creations=[creation(name) for name in names]), context)
        assert [result.error_code for result in made.results] == [ErrorCode.NONE] * ROWS
        described = await describe_acls(describing(), context)
        assert [resource.resource_name for resource in described.resources] == sorted(names)
        filters = [selecting(name) for name in names[1:]] + [selecting(None)]
        deleted = await delete_acls(DeleteAclsRequest(filters=filters), context)
        rows = [[row.resource_name for row in result.matching_acls] for result in deleted.filter_results]
        assert rows == [[name] for name in names[1:]] + [["t0"]]
        others.cancel()
        assert turns.longest_ms <= 3 * SLICE_MS


@simulated(1)
async def test_the_changes_of_a_pattern_are_one_write(loop: SimLoop) -> None:
    async with AclWorld() as world:
        context = world.context(await world.broker())
        users = [f"User:{number}" for number in range(50)]
        await create_acls(CreateAclsRequest(creations=[creation("t", principal=each) for each in users]), context)
        await delete_acls(DeleteAclsRequest(filters=[selecting("t")]), context)
        assert len(await world.store.children("/kafka-acl-changes")) == 2


@simulated(1)
async def test_a_store_that_does_not_answer_fails_each_row(loop: SimLoop) -> None:
    async with AclWorld() as world:
        broker = await world.broker()
        context = world.context(broker)
        await create_acls(CreateAclsRequest(creations=[creation("a")]), context)
        broker.store.session().cut()
        creations = [creation("a", operation=4), creation("a/b"), creation("c")]
        made = await create_acls(CreateAclsRequest(creations=creations), context)
        assert [result.error_code for result in made.results] == [
            ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT,
        ]  # fmt: skip
        deleted = await delete_acls(DeleteAclsRequest(filters=[selecting("a")]), context)
        [[row]] = [result.matching_acls for result in deleted.filter_results]
        assert (row.resource_name, row.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)
        described = await describe_acls(describing(), context)
        assert [resource.resource_name for resource in described.resources] == ["a"]
