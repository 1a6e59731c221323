"""Share groups where `share.version` is 0, and other levels are not."""

from __future__ import annotations

from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.differential.newer.share_groups import describing as describing_members
from tests.differential.newer.share_members import ACCEPT, ShareMember
from tests.differential.newer.share_offsets import altering, deleting, describing
from tests.differential.play import WITHOUT_SHARES, Run, newer_case


@newer_case(ShareGroupHeartbeatRequest, stage=WITHOUT_SHARES)
def requests_of_share_groups_that_are_not_served(run: Run) -> None:
    topic = run.topic()
    at = run.last_topic_id, 0
    group = run.group()
    member = ShareMember(run, group, "m", topic)
    run.ask(member.request(), 1)
    for version in (1, 2):
        run.ask(member.fetching(at, max_wait_ms=0), version)
        run.ask(member.acknowledging({at: [(0, 0, [ACCEPT])]}, share_session_epoch=1), version)
    run.ask(describing_members(group, run.name("other")), 1)
    for version in (0, 1):
        run.ask(describing(group, {topic: [0]}), version)
        run.ask(describing(group), version)
    run.ask(altering(group, {topic: {0: 0}}), 0)
    run.ask(deleting(group, topic), 0)
    run.ask(FindCoordinatorRequest(coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"], key_type=2), 6)
