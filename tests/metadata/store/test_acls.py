"""ACL nodes are byte for byte Apache Kafka's, and survive writers at the same time and responses that are lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from metadata.store import acls
from metadata.store.acls import LITERAL, PREFIXED, AclNode, AclRow, InvalidAclNode
from metadata.store.port import BadVersionError, Store, Transaction
from runtime.clock import SystemClock
from tests.async_tests import simulated
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import Fault, SimulatedEnsemble

ORDERS = AclNode("TOPIC", "orders", LITERAL)
READ = AclRow("User:alice", "Allow", "*", "Read")
WRITE = AclRow("User:bob", "Deny", "10.0.0.1", "Write")


def adding(*rows: AclRow) -> acls.Edit:
    return lambda before: [*before, *(row for row in rows if row not in before)]


def removing(*rows: AclRow) -> acls.Edit:
    return lambda before: [row for row in before if row not in rows]


async def store_with_folders() -> tuple[SimulatedEnsemble, Store]:
    ensemble = SimulatedEnsemble(SystemClock())
    store: Store = ensemble.connect()
    await acls.ensure_acl_paths(store)
    return ensemble, store


@pytest.mark.parametrize(
    ("node", "path", "change"),
    [
        (ORDERS, "/kafka-acl/Topic/orders", b"TOPIC:orders"),
        (AclNode("TRANSACTIONAL_ID", "a:b é", LITERAL), "/kafka-acl/TransactionalId/a:b é", "TRANSACTIONAL_ID:a:b é".encode()),
        (
            AclNode("TOPIC", "pre", PREFIXED), "/kafka-acl-extended/prefixed/Topic/pre",
            b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}',
        ),
        (
            AclNode("DELEGATION_TOKEN", "t", PREFIXED), "/kafka-acl-extended/prefixed/DelegationToken/t",
            b'{"version":1,"resourceType":"DELEGATION_TOKEN","name":"t","patternType":"PREFIXED"}',
        ),
    ],
)  # fmt: skip
def test_paths_and_notifications(node: AclNode, path: str, change: bytes) -> None:
    """As read off Apache Kafka 3.9.1."""
    assert node.path == path
    assert acls.encode_change(node) == change
    assert acls.decode_change(change, node.pattern_type) == node


def test_the_rows_of_a_node() -> None:
    """As read off Apache Kafka 3.9.1."""
    data = (
        b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"ClusterAction"},'
        b'{"principal":"User:\xc3\xa9\\"x","permissionType":"Deny","host":"10.0.0.1","operation":"DescribeConfigs"}],"version":1}'
    )
    rows = [
        AclRow("User:alice", "Allow", "*", "ClusterAction"),
        AclRow('User:é"x', "Deny", "10.0.0.1", "DescribeConfigs"),
    ]
    assert acls.encode_rows(rows) == data
    assert acls.decode_rows(data) == rows
    assert acls.decode_rows(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        b"not JSON", b"[]", b"{}", b'{"version":2,"acls":[]}', b'{"acls":[]}', b'{"version":1}', b'{"version":1,"acls":7}',
        b'{"version":1,"acls":[7]}', b'{"version":1,"acls":[{"principal":"User:a"}]}',
        b'{"version":1,"acls":[{"principal":7,"permissionType":"Allow","host":"*","operation":"Read"}]}', b"\xff",
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","host":"*","operation":"Read"}]}',
    ],
)  # fmt: skip
def test_rows_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        acls.decode_rows(data)


@pytest.mark.parametrize(
    ("data", "pattern_type"),
    [
        (b"orders", LITERAL), (b"NOTHING:orders", LITERAL), (b"TOPIC:", LITERAL), (b"TOPIC:a/b", LITERAL), (b"\xff", LITERAL),
        (b"", PREFIXED), (b"{}", PREFIXED), (b"[]", PREFIXED),
        (b'{"version":1,"resourceType":"TOPIC","name":"a","patternType":"MATCH"}', PREFIXED),
    ],
)  # fmt: skip
def test_notifications_that_cannot_be_read(data: bytes, pattern_type: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        acls.decode_change(data, pattern_type)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\x00", "\x1f", "\x7f", "\ue000", "\ufff0"])
def test_names_that_no_node_has(name: str) -> None:
    assert not acls.is_possible_name(name)


@pytest.mark.parametrize("name", ["*", "a", "...", "a b", "é", "x" * 300, "-", "%2F", "😀"])
def test_names_that_nodes_have(name: str) -> None:
    assert acls.is_possible_name(name)


@simulated(1)
async def test_rows_are_added_and_removed_with_a_notification_each() -> None:
    _, store = await store_with_folders()
    assert await acls.update(store, ORDERS, adding(READ)) == ([], [READ])
    assert await acls.update(store, ORDERS, adding(READ, WRITE)) == ([READ], [READ, WRITE])
    assert await acls.update(store, ORDERS, adding(READ)) == ([READ, WRITE], [READ, WRITE]), "nothing to do"
    assert await acls.named_nodes(store) == [ORDERS]
    assert await acls.read_nodes(store, [ORDERS, ORDERS._replace(name="x")]) == {
        ORDERS: [READ, WRITE],
        ORDERS._replace(name="x"): [],
    }
    assert await acls.update(store, ORDERS, removing(READ)) == ([READ, WRITE], [WRITE])
    assert await acls.update(store, ORDERS, removing(WRITE)) == ([WRITE], [])
    assert await store.exists(ORDERS.path) is None
    assert await acls.update(store, ORDERS, removing(WRITE)) == ([], [])
    assert await acls.changes_after(store, LITERAL, -1) == [(number, ORDERS) for number in range(4)]
    assert await acls.changes_after(store, LITERAL, 2) == [(3, ORDERS)]
    assert await acls.changes_after(store, PREFIXED, -1) == []


@simulated(1)
async def test_writers_at_the_same_time_lose_nothing() -> None:
    ensemble, store = await store_with_folders()
    other = ensemble.connect()
    tried: list[Sequence[AclRow]] = []

    for start in ([], [AclRow("User:x", "Allow", "*", "All")]):
        if start:
            await acls.update(store, ORDERS, adding(*start))
        for competing in (adding(WRITE), removing(WRITE)):
            tried.clear()
            await acls.update(store, ORDERS, removing(READ))

            def edit(before: Sequence[AclRow], competing: acls.Edit = competing) -> Sequence[AclRow]:
                tried.append(before)
                if len(tried) == 1:  # between the read and the write
                    node = ensemble.tree.nodes.find(ORDERS.path)
                    rows = competing([] if node is None else acls.decode_rows(node.data))
                    ensemble.transact(other.session().session_id, _replacing(ensemble, rows))
                return adding(READ)(before)

            _, after = await acls.update(store, ORDERS, edit)
            assert len(tried) == 2
            found = (await acls.read_nodes(store, [ORDERS]))[ORDERS]
            assert found == after
            assert READ in after and set(start) <= set(after)


def _replacing(ensemble: SimulatedEnsemble, rows: Sequence[AclRow]) -> Transaction:
    node = ensemble.tree.nodes.find(ORDERS.path)
    version = None if node is None else node.stat.version
    return acls._transaction(ORDERS, rows, version, has_changed=version is not None or bool(rows))


def test_a_writer_that_is_always_late_gives_up() -> None:
    async def program(_loop: SimLoop) -> None:
        ensemble, store = await store_with_folders()
        other, count = ensemble.connect(), 0

        def edit(before: Sequence[AclRow]) -> Sequence[AclRow]:
            nonlocal count
            count += 1
            rows = adding(AclRow(f"User:{count}", "Allow", "*", "Read"))(before)
            ensemble.transact(other.session().session_id, _replacing(ensemble, rows))
            return adding(READ)(before)

        with pytest.raises(BadVersionError):
            await acls.update(store, ORDERS, edit)
        assert count == acls.ATTEMPTS_MAX

    simulate(1, program)


@pytest.mark.parametrize("fault", list(Fault))
@simulated(1)
async def test_a_lost_response_leaves_the_change_made_and_told(fault: Fault) -> None:
    ensemble, store = await store_with_folders()
    for edit, rows in ((adding(READ), [READ]), (removing(READ), [])):
        faults = iter([fault])
        ensemble.fault = lambda _session_id, _operations, faults=faults: next(faults, None)
        before, after = await acls.update(store, ORDERS, edit)
        assert (before, after) == ([] if rows else [READ], rows)
        assert (await acls.read_nodes(store, [ORDERS]))[ORDERS] == rows
    changes = await acls.changes_after(store, LITERAL, -1)
    assert len(changes) == (2 if fault is Fault.REQUEST_LOST else 4), "an unsure change is told again"


@simulated(1)
async def test_a_folder_that_is_gone_is_made_again() -> None:
    _, store = await store_with_folders()
    await store.delete("/kafka-acl/Topic")
    await acls.update(store, ORDERS, adding(READ))
    assert (await acls.read_nodes(store, [ORDERS]))[ORDERS] == [READ]


@simulated(1)
async def test_a_node_that_cannot_be_read_is_not_written() -> None:
    _, store = await store_with_folders()
    await store.create(ORDERS.path, b"not JSON")
    with pytest.raises(InvalidAclNode, match="/kafka-acl/Topic/orders"):
        await acls.update(store, ORDERS, adding(READ))
    assert isinstance((await acls.read_nodes(store, [ORDERS]))[ORDERS], InvalidAclNode)
    assert (await store.get(ORDERS.path))[0] == b"not JSON"


def test_what_is_none_of_ours_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def program(_loop: SimLoop) -> None:
        _, store = await store_with_folders()
        await store.create("/kafka-acl/Planet")
        await store.create("/kafka-acl/Planet/earth")
        await store.create("/kafka-acl-changes/acl_changes_", b"PLANET:earth", sequential=True)
        await store.create("/kafka-acl-changes/other", b"")
        assert await acls.named_nodes(store) == []
        assert await acls.changes_after(store, LITERAL, -1) == [(0, None)]

    simulate(1, program)
    assert "ACLs of an unknown type ignored" in caplog.text
    assert "change of ACLs ignored" in caplog.text


@simulated(1)
async def test_old_notifications_are_removed() -> None:
    _, store = await store_with_folders()
    await acls.update(store, ORDERS, adding(READ))
    await acls.update(store, ORDERS._replace(pattern_type=PREFIXED), adding(READ))
    assert await acls.purge_changes(store, 0) == 0
    assert await acls.purge_changes(store, 1 << 50) == 2
    assert await store.children("/kafka-acl-changes") == []
