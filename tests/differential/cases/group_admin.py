"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

import struct
from collections.abc import Callable

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.differential.cases.groups import joined, joining, leaving, stable, wait_for_members
from tests.differential.cases.offsets import committed
from tests.differential.play import Run, case


def own_groups(run: Run) -> Callable[[ListGroupsResponse], None]:
    def pick(answer: ListGroupsResponse) -> None:
        answer.groups = [group for group in answer.groups if group.group_id.startswith(run.prefix)]

    return pick


def four_groups(run: Run) -> tuple[str, str, str, str]:
    """One of each: stable, empty after a member left, empty with offsets only, completing its rebalance."""
    live, left, simple, fresh = (run.group(name) for name in ("live", "left", "simple", "fresh"))
    stable(run, live, group_instance_id="one")
    member = stable(run, left)
    run.do(leaving(run, left, member.member_id))
    committed(run, simple, run.topic(), 5)
    joined(run, fresh)
    return live, left, simple, fresh


@case(DescribeGroupsRequest, "normal")
def of_every_state(run: Run) -> None:
    run.ask(DescribeGroupsRequest(groups=list(four_groups(run))))


@case(DescribeGroupsRequest, "edge")
def dead_and_empty_names(run: Run) -> None:
    run.group()
    committed(run, "", run.topic(), 5)
    run.ask(DescribeGroupsRequest(groups=[run.name("never"), ""]))
    run.ask(DescribeGroupsRequest(groups=[]))


@case(DescribeGroupsRequest, "edge", "3+")
def authorized_operations(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(DescribeGroupsRequest(groups=[group, run.name("never")], include_authorized_operations=True))


@case(DescribeGroupsRequest, "edge")
def while_preparing(run: Run) -> None:
    group = run.group()
    stable(run, group)
    other = run.connect()
    second_id = run.do(joining(group), wire=other).member_id
    other.send(joining(group, second_id), 9)
    wait_for_members(run, group, 2)
    run.ask(DescribeGroupsRequest(groups=[group]))
    other.close()


@case(DescribeGroupsRequest, "wrong")
def the_same_twice(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(DescribeGroupsRequest(groups=[group, group]))


@case(ListGroupsRequest, "normal")
def all_of_them(run: Run) -> None:
    four_groups(run)
    run.ask(ListGroupsRequest(), pick=own_groups(run))


@case(ListGroupsRequest, "normal", "4+")
def by_state(run: Run) -> None:
    four_groups(run)
    for states in (["Stable"], ["Empty", "CompletingRebalance"], ["stable"], ["Dead"]):
        run.ask(ListGroupsRequest(states_filter=states), pick=own_groups(run))


@case(ListGroupsRequest, "normal", "5+")
def by_type(run: Run) -> None:
    four_groups(run)
    for types in (["classic"], ["Classic"], ["consumer"], ["classic", "consumer"]):
        run.ask(ListGroupsRequest(types_filter=types), pick=own_groups(run))


@case(ListGroupsRequest, "edge")
def a_member_that_only_has_its_id(run: Run) -> None:
    group = run.group()
    run.do(joining(group))
    run.ask(ListGroupsRequest(), pick=own_groups(run))


@case(ListGroupsRequest, "wrong", "4+")
def states_and_types_that_are_not(run: Run) -> None:
    four_groups(run)
    run.ask(ListGroupsRequest(states_filter=["Nonsense"]), pick=own_groups(run))
    if run.version >= 5:
        run.ask(ListGroupsRequest(types_filter=["nonsense"]), pick=own_groups(run))


@case(ListGroupsRequest, "wrong", "0-3")
def a_body_too_long(run: Run) -> None:
    tags = b"\0\0" if run.version == 3 else b""
    head = struct.pack(">hhih", 16, run.version, 7, -1) + tags
    frame = head + b"\0\0\0\0"
    run.ask_raw(struct.pack(">i", len(frame)) + frame, show=lambda answer: "answered")


@case(DeleteGroupsRequest, "normal")
def empty_ones(run: Run) -> None:
    _, left, simple, _ = four_groups(run)
    run.ask(DeleteGroupsRequest(groups_names=[left, simple]))
    run.ask(DescribeGroupsRequest(groups=[left, simple]), 5)
    run.ask(DeleteGroupsRequest(groups_names=[left]))


@case(DeleteGroupsRequest, "edge")
def none_or_one_twice(run: Run) -> None:
    group, topic = run.group(), run.topic()
    run.ask(DeleteGroupsRequest(groups_names=[]))
    committed(run, group, topic, 5)
    run.ask(DeleteGroupsRequest(groups_names=[group, group]))


@case(DeleteGroupsRequest, "wrong")
def live_unknown_and_nameless(run: Run) -> None:
    live, _, _, fresh = four_groups(run)
    committed(run, "", run.topic("other"), 5)
    run.ask(DeleteGroupsRequest(groups_names=[live, fresh, run.name("never"), ""]))
