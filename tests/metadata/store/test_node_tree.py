"""The tree: what operations do to Stats, as ZooKeeper does it; access lists; sessions."""

from __future__ import annotations

import pytest

from metadata.store.node_acls import Identities
from metadata.store.node_tree import NodeTree, Staged, StoredSession
from metadata.store.port import (
    OPEN_ACL,
    AccessDeniedError,
    Acl,
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    RefusedError,
    SetAcl,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
    WatchKind,
)
from tests.metadata.store.stats import CHANGES, NEXT_SEQUENTIAL, End, counts

ONE = StoredSession(1, b"password", 6_000)
BOB = frozenset({("sasl", "bob"), ("ip", "127.0.0.1")})


def applied(tree: NodeTree, *operations: Operation, session_id: int = 1) -> Staged:
    staged = tree.stage(operations, session_id=session_id, now_ms=7)
    tree.apply(staged)
    return staged


def stat_of(tree: NodeTree, path: str) -> Stat | None:
    node = tree.nodes.find(path)
    return None if node is None else node.stat


def test_stats_are_those_of_zookeeper() -> None:
    """`zookeeper/test_oracle.py` asks the real one the same."""
    tree = NodeTree(sessions=[ONE, StoredSession(2, b"", 1)])
    for number, (step, parent, child, owner) in enumerate(CHANGES):
        if isinstance(step, End):
            tree.apply(tree.stage_session_end(step.owner))
        else:
            applied(tree, *step, session_id=owner)
        found = [counts(stat_of(tree, path), first_zxid=1) for path in ("/p", "/p/a")]
        assert found == [parent, child], f"step {number}: {step}"
    assert applied(tree, Create("/p/n_", sequential=True)).results == [NEXT_SEQUENTIAL]


def test_a_node_that_was_made_by_an_ephemeral_session_says_so() -> None:
    tree = NodeTree()
    applied(tree, Create("/e", ephemeral=True), session_id=9)
    stat = stat_of(tree, "/e")
    assert stat is not None
    assert (stat.ephemeral_owner, stat.is_ephemeral, stat.ctime_ms) == (9, True, 7)


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Create("/closed/x"), AccessDeniedError),
        (Create("/closed/a"), AccessDeniedError),  # although it exists
        (Create("/missing/x"), NoNodeError),
        (Create("/world/a"), NodeExistsError),
        (Create("/world/x"), None),
        (Create("/bobs/x"), None),
        (Delete("/closed/a"), AccessDeniedError),
        (Delete("/closed/missing"), AccessDeniedError),
        (Delete("/closed/a", 7), AccessDeniedError),
        (Delete("/missing/a"), NoNodeError),
        (Delete("/"), RefusedError),
        (Delete("/world/a", 7), BadVersionError),
        (Delete("/world/a"), None),
        (SetData("/closed", b""), AccessDeniedError),
        (SetData("/closed", b"", 7), AccessDeniedError),
        (SetData("/missing", b""), NoNodeError),
        (SetData("/bobs", b"", 7), BadVersionError),
        (SetData("/bobs", b"", 0), None),
        (SetAcl("/closed", OPEN_ACL), AccessDeniedError),
        (SetAcl("/missing", OPEN_ACL), NoNodeError),
        (SetAcl("/bobs", OPEN_ACL, 7), BadVersionError),
        (SetAcl("/bobs", OPEN_ACL, 0), None),
        (Check("/closed", 0), AccessDeniedError),
        (Check("/bobs", 7), BadVersionError),
        (Check("/bobs", 0), None),
    ],
    ids=str,
)
def test_operations_ask_for_zookeepers_permissions(operation: Operation, error: type[StoreError] | None) -> None:
    tree = NodeTree()
    applied(
        tree,
        Create("/closed", acl=(Acl(31, "sasl", "alice"),)),
        Create("/bobs", acl=(Acl(31, "sasl", "bob"),)),
        Create("/world"),
        Create("/world/a", acl=()),
        Create("/closed/a"),
    )
    if error is None:
        tree.apply(tree.stage([operation], session_id=1, now_ms=8, identities=BOB))
        return
    with pytest.raises(error):
        tree.stage([operation], session_id=1, now_ms=8, identities=BOB)


@pytest.mark.parametrize("identities", [None, frozenset({("super", "")})], ids=["in process", "the super user"])
def test_who_may_everything(identities: Identities | None) -> None:
    tree = NodeTree()
    nobody = (Acl(0, "world", "anyone"),)
    applied(tree, Create("/a", acl=nobody))
    operations = [SetAcl("/a", nobody), SetData("/a", b"x"), Check("/a", 1), Create("/a/b"), Delete("/a/b")]
    tree.apply(tree.stage(operations, session_id=1, now_ms=8, identities=identities))
    assert tree.node("/a").acl == nobody


# --- sessions ---


def test_a_session_ends_with_its_ephemeral_nodes_in_one_transaction() -> None:
    tree = NodeTree()
    tree.apply(tree.stage_session(ONE))
    assert tree.sessions == {1: ONE}
    applied(tree, Create("/p"), Create("/p/mine", ephemeral=True), Create("/p/other"))
    applied(tree, Create("/p/others", ephemeral=True), session_id=2)
    staged_only = tree.stage([Create("/p/new", ephemeral=True)], session_id=1, now_ms=8)
    gone = tree.stage([Create("/p/gone", ephemeral=True), Delete("/p/gone")], session_id=1, now_ms=8)
    end = tree.stage_session_end(1)
    assert not tree.is_session_open(1)
    assert 1 in tree.sessions
    for staged in (staged_only, gone, end):
        tree.apply(staged)
    assert tree.children("/p") == ["other", "others"]
    assert not tree.sessions
    assert [event for event in end.events if event.kind is WatchKind.DELETED] == [
        WatchEvent(WatchKind.DELETED, "/p/mine"),
        WatchEvent(WatchKind.DELETED, "/p/new"),
    ]
    assert (tree.node("/p").pzxid, tree.zxid) == (end.zxid, end.zxid)


def test_what_was_abandoned_has_opened_and_closed_nothing() -> None:
    tree = NodeTree(sessions=[ONE])
    tree.stage_session_end(1)
    tree.stage_session(StoredSession(2, b"", 1))
    tree.abandon_staged()
    assert (tree.is_session_open(1), tree.is_session_open(2)) == (True, False)
    tree.apply(tree.stage_session_end(1))
    assert (tree.zxid, tree.sessions) == (1, {})
