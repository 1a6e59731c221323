"""Bugs of everything between brokers: followers, leaders, the ISR, the controller. Hunted in histories of clusters.

Several are the known ones of old Kafka: `truncates-to-watermark` (KIP-101), `one-truncation-too-few` (KIP-279),
`fence-open` (KIP-320), `controller-not-fenced` (KIP-380).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broker import server
from broker.cluster.control_requests import ControlRequests
from broker.cluster.controller_claims import ControllerClaims
from broker.cluster.membership import Membership
from broker.handlers.records import fetch
from controller import isr_changes, partition_state_machine, reassignment_rules, replica_state_machine
from controller.controller_term import Term
from controller.elections import leader_election_rules
from controller.elections.leader_election_rules import Elected
from controller.events import event_handlers
from protocol.errors import ErrorCode
from replication import message_expiry
from replication.assignment import PartitionAssignment
from replication.followers.fetchers import Fetchers
from replication.followers.followed_log import FollowedPartition
from replication.followers.follower import Fetch, FollowerState, TruncateTo
from replication.isr_requests import IsrChangeRequest, _IsrChangeQueue
from replication.leader import IsrResponse, LeaderState
from replication.message_expiry import MessageExpiry
from replication.moves.log_copy import LogCopy
from replication.partition import Partition
from storage.log.leader_epoch_file import LeaderEpochFile
from tests.simulation.mutants import Mutant, Patches

# --- the leader ---


def _watermark_early(patches: Patches) -> None:
    def advance(self: LeaderState, now_ms: int = 0) -> int | None:
        if self.leo <= self.high_watermark:
            return None
        self.high_watermark = self.leo
        return self.leo

    patches.replace(LeaderState, "_advance", lambda original: advance)


def _commits_before_followers(patches: Patches) -> None:
    patches.replace(Partition, "is_committed", lambda original: lambda self, end_offset: True)


def _shrinks_unasked(patches: Patches) -> None:
    """What was wished counts already, before the controller has said so."""

    def maximal_isr(self: LeaderState) -> tuple[int, ...]:
        return self.isr if self.pending is None else self.pending.isr

    patches.replace(LeaderState, "maximal_isr", lambda original: property(maximal_isr))


def _joins_uncounted(patches: Patches) -> None:
    """Who is about to join the ISR is not waited for, nor is anybody who might."""

    patches.replace(LeaderState, "maximal_isr", lambda original: property(lambda self: self.isr))
    patches.replace(LeaderState, "_waits_for", lambda original: lambda self, replica, now_ms: False)


def _joins_behind(patches: Patches) -> None:
    patches.replace(LeaderState, "_may_join", lambda original: lambda self, replica, now_ms: True)


def _laggards_stay(patches: Patches) -> None:
    patches.replace(LeaderState, "on_tick", lambda original: lambda self, now_ms: [])


def _silence_is_consent(patches: Patches) -> None:
    """A wish that the controller has not answered counts as granted."""

    def granted(self: _IsrChangeQueue, wishes: Sequence[IsrChangeRequest]) -> None:
        for wish in wishes:
            change = wish.change
            wish.answer(IsrResponse(ErrorCode.NONE, change.leader_epoch, change.isr, change.partition_epoch))

    patches.replace(_IsrChangeQueue, "_put_back", lambda original: granted)


def _fence_open(patches: Patches) -> None:
    patches.replace(PartitionAssignment, "check_epoch", lambda original: lambda self, *_: None)


def _reads_past_watermark(patches: Patches) -> None:
    def unlimited(original: Any) -> Any:
        def inspect(item: Any, partition: Partition, reader: Any) -> Any:
            read = original(item, partition, reader)
            if read.limit_offset >= 0:
                read.limit_offset = partition.log.log_end_offset
                read.leader_epoch = partition.assignment.leader_epoch  # as for those who may; else it is noticed later
            return read

        return inspect

    patches.replace(fetch, "inspect", unlimited)


# --- expiry ---


def _expires_early(patches: Patches) -> None:
    def early(original: Any) -> Any:
        async def find(*arguments: Any, before_ms: int, **options: Any) -> Any:
            return await original(*arguments, before_ms=before_ms + 1_500, **options)

        return find

    patches.replace(message_expiry, "find_expired", early)


def _expires_one_too_many(patches: Patches) -> None:
    def farther(original: Any) -> Any:
        def expire(self: Partition, offset: int) -> None:
            original(self, min(offset + 1, self.high_watermark))

        return expire

    patches.replace(Partition, "expire", farther)


def _expires_no_more_after_elections(patches: Patches) -> None:
    """What was looked at in an earlier term is not looked at again, nor is what came since."""

    def on_leader(self: MessageExpiry, partition: Partition) -> None:
        if partition.assignment.leader_epoch == 0:
            self.on_config_changed(partition)

    patches.replace(MessageExpiry, "on_leader", lambda original: on_leader)


# --- the follower ---


def _truncates_to_watermark(patches: Patches) -> None:
    """As before KIP-101: every new leader makes a follower cut its log to the high watermark it knows of, and that is
    all: nobody speaks of epochs."""

    def first_step(self: FollowerState) -> TruncateTo:
        return TruncateTo(min(self._log.high_watermark, self._log.log_end_offset), is_last=True)

    def fetch_on(self: FollowerState) -> Fetch:
        return Fetch(self._log.log_end_offset, -1)

    patches.replace(FollowerState, "_first_step", lambda original: first_step)
    patches.replace(FollowerState, "_fetch", lambda original: fetch_on)


def _divergence_ignored(patches: Patches) -> None:
    def on_diverging(self: FollowerState, epoch: int, end_offset: int) -> None:
        self.step = Fetch(self._log.log_end_offset, -1)

    patches.replace(FollowerState, "on_diverging", lambda original: on_diverging)


def _one_truncation_too_few(patches: Patches) -> None:
    """As before KIP-279: an epoch that is not ours is taken for one that is."""

    def cut(self: FollowerState, epoch: int, end_offset: int) -> TruncateTo:
        return TruncateTo(min(end_offset, self._log.log_end_offset), is_last=True)

    patches.replace(FollowerState, "_cut", lambda original: cut)


def _claims_unwritten(patches: Patches) -> None:
    """What a follower has put on its way to the disk is as good as written."""
    patches.replace(FollowerState, "on_appended", lambda original: _step_behind_the_queue)
    patches.replace(FollowedPartition, "append", _taken_at_once)


def _step_behind_the_queue(self: FollowerState, leader_high_watermark: int) -> None:
    log: Any = self._log
    self.lag = max(leader_high_watermark - log.offsets.next_offset, 0)
    self.step = Fetch(log.offsets.next_offset, log.epochs.latest_epoch)


def _taken_at_once(original: Any) -> Any:
    async def take(self: FollowedPartition, row: Any) -> Any:
        taken = await original(self, row)
        if self.is_writing:
            self.is_writing = False
            self.state.on_appended(row.high_watermark)
        return taken

    return take


def _copies_on_as_leader(patches: Patches) -> None:
    """The fetcher is not told that the partition has another leader, and nothing asks who leads."""

    async def stop_following(self: Fetchers, topic: str, partition: int) -> None:
        return

    patches.replace(Fetchers, "stop_following", lambda original: stop_following)


def _watermark_unbounded(patches: Patches) -> None:
    def take_over(self: Partition) -> None:
        self.commit(self._leader_high_watermark)

    patches.replace(Partition, "_take_over_leader_offsets", lambda original: take_over)


def _epochs_not_kept(patches: Patches) -> None:
    patches.replace(LeaderEpochFile, "assign", lambda original: lambda self, epoch, start_offset: None)


def _epochs_outlive_cuts(patches: Patches) -> None:
    patches.replace(LeaderEpochFile, "truncate", lambda original: lambda self, end_offset: None)
    patches.replace(LeaderEpochFile, "clear", lambda original: lambda self: None)
    patches.replace(LeaderEpochFile, "truncate_from_end", lambda original: lambda self, end_offset: None)


# --- the controller, and who listens to it ---


def _leader_from_anywhere(patches: Patches) -> None:
    def elect(original: Any) -> Any:
        def elect_offline(wanted: Any, isr: Any, is_online: Any, *, is_unclean_allowed: bool) -> Any:
            return original(wanted, isr, is_online, is_unclean_allowed=True)

        return elect_offline

    patches.replace(partition_state_machine, "elect_offline", elect)


def _epoch_not_raised(patches: Patches) -> None:
    def lower(original: Any) -> Any:
        def next_state(state: Any, elected: Elected, controller_epoch: int, **options: Any) -> Any:
            return replace(
                original(state, elected, controller_epoch, **options), leader_epoch=max(state.leader_epoch, 0)
            )

        return next_state

    patches.replace(partition_state_machine, "next_state", lower)


def _last_member_leaves(patches: Patches) -> None:
    def drop(original: Any) -> Any:
        def without_replica(state: Any, broker_id: int, controller_epoch: int, members: Any) -> Any:
            left = original(state, broker_id, controller_epoch, members)
            others = tuple(each for each in state.isr if each != broker_id)
            return None if left is None else replace(left, isr=others)

        return without_replica

    patches.replace(replica_state_machine, "without_replica", drop)
    patches.replace(leader_election_rules, "without_replica", drop)


def _dead_not_missed(patches: Patches) -> None:
    async def ignore(term: Term, gone: Any) -> None:
        return

    patches.replace(event_handlers, "_on_brokers_lost", lambda original: ignore)


def _controller_not_fenced(patches: Patches) -> None:
    async def write_many(self: Term, transactions: Any) -> Any:
        return await self.session.write_many(transactions)

    patches.replace(Term, "write_many", lambda original: write_many)


def _reassigns_hastily(patches: Patches) -> None:
    patches.replace(reassignment_rules, "is_complete", lambda original: lambda assignment, state: True)


def _wishes_unjudged(patches: Patches) -> None:
    """The epochs of an AlterPartition are not looked at."""

    def lenient(original: Any) -> Any:
        def decide(context: Any, broker_id: int, key: Any, wish: Any) -> Any:
            current = context.leadership.get(key)
            if current is not None:
                wish = replace(
                    wish, leader_epoch=current.leader_epoch, partition_epoch=current.partition_epoch, broker_epochs={}
                )
                broker_id = current.leader
                members = tuple(dict.fromkeys((current.leader, *wish.isr)))
                wish = replace(wish, isr=members)
            return original(context, broker_id, key, wish)

        return decide

    patches.replace(isr_changes, "decide", lenient)


def _any_controller_believed(patches: Patches) -> None:
    async def is_controller(self: ControllerClaims, controller_id: int, epoch: int) -> bool:
        return True

    patches.replace(ControllerClaims, "is_controller", lambda original: is_controller)
    patches.replace(ControllerClaims, "is_current", lambda original: lambda self, controller_id, epoch: True)
    patches.replace(ControllerClaims, "accept_own_epoch", lambda original: lambda self, epoch: True)


def _former_life_answers(patches: Patches) -> None:
    patches.replace(ControlRequests, "_is_stale", lambda original: lambda self, request: False)


def _registers_once(patches: Patches) -> None:
    patches.replace(Membership, "_on_session", lambda original: lambda self, event: None)


def _power_loss_ignored(patches: Patches) -> None:
    async def at_once(*args: Any, **options: Any) -> bool:
        return True

    patches.replace(server, "wait_until_out_of_isrs", lambda original: at_once)


# --- moves between log directories ---


def _moves_while_copying(patches: Patches) -> None:
    """So it was: fetchers that copy nothing yet are empty, and so were taken for none."""
    patches.replace(Fetchers, "follows", lambda original: lambda self, topic, partition: False)


def _exchanged_without_the_rest(patches: Patches) -> None:
    async def copy_remaining(self: LogCopy) -> None:
        self._take_over_offsets()

    patches.replace(LogCopy, "copy_remaining", lambda original: copy_remaining)


REPLICATION = (
    Mutant("watermark-early", "the high watermark does not wait for followers", _watermark_early),
    Mutant("commits-before-followers", "acks=all is answered when the leader has written", _commits_before_followers),
    Mutant("shrinks-unasked", "a smaller ISR counts before the controller agrees", _shrinks_unasked),
    Mutant("joins-uncounted", "who is being added to the ISR is not waited for", _joins_uncounted),
    Mutant("joins-behind", "a follower joins the ISR before it has caught up", _joins_behind),
    Mutant("laggards-stay", "a follower that is behind never leaves the ISR", _laggards_stay),
    Mutant("silence-is-consent", "a change of the ISR that nobody answers counts as granted", _silence_is_consent),
    Mutant("fence-open", "nobody looks at the epoch that a request believes in", _fence_open),
    Mutant("reads-past-watermark", "consumers read what is not committed", _reads_past_watermark),
    Mutant("expires-early", "records expire before they are old enough", _expires_early),
    Mutant("expires-one-too-many", "the record behind the last expired one goes, too", _expires_one_too_many),
    Mutant(
        "expires-no-more-after-elections",
        "records stay under every leader but the first",
        _expires_no_more_after_elections,
    ),
    Mutant("truncates-to-watermark", "a follower cuts its log to the high watermark it knows", _truncates_to_watermark),
    Mutant("divergence-ignored", "a follower does not cut what its leader does not have", _divergence_ignored),
    Mutant("one-truncation-too-few", "a follower cuts by an epoch that it does not have", _one_truncation_too_few),
    Mutant("claims-unwritten", "a follower asks for what comes behind its queued writes", _claims_unwritten),
    Mutant("copies-on-as-leader", "a fetcher keeps a partition that has another leader", _copies_on_as_leader),
    Mutant("watermark-unbounded", "a follower believes a high watermark behind its log's end", _watermark_unbounded),
    Mutant("epochs-not-kept", "a log does not know in which epochs its records were written", _epochs_not_kept),
    Mutant("epochs-outlive-cuts", "the epochs of a log stay as they were when it is cut", _epochs_outlive_cuts),
    Mutant("leader-from-anywhere", "any replica may lead when the ISR is gone", _leader_from_anywhere),
    Mutant("epoch-not-raised", "an election keeps the leader epoch", _epoch_not_raised),
    Mutant("last-member-leaves", "the last member of an ISR is taken out when it dies", _last_member_leaves),
    Mutant("dead-not-missed", "the controller does nothing when a broker dies", _dead_not_missed),
    Mutant("controller-not-fenced", "a controller that was deposed goes on writing", _controller_not_fenced),
    Mutant("reassigns-hastily", "old replicas go before the new ones are in sync", _reassigns_hastily),
    Mutant("wishes-unjudged", "the controller grants changes of the ISR from another epoch", _wishes_unjudged),
    Mutant("any-controller-believed", "a broker obeys controllers of old", _any_controller_believed),
    Mutant("former-life-answers", "a broker takes requests meant for its life before", _former_life_answers),
    Mutant(
        "power-loss-ignored", "a broker that lost power comes back as a member of in-sync sets", _power_loss_ignored
    ),
    Mutant("registers-once", "a broker whose session has ended is not registered again", _registers_once),
    Mutant("moves-while-copying", "a follower's log is exchanged while it is copied to", _moves_while_copying),
    Mutant(
        "exchanged-without-the-rest",
        "a copy takes its log's place without the last records",
        _exchanged_without_the_rest,
    ),
)
