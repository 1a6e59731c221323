"""Looks again and again at what might stand still, until it has moved or the window ends.

Watched are partitions whose groups lag, groups in a rebalance, transactions that are open in a partition, reassignments, and
brokers that disagree. Whatever has moved is dropped; a look ends when nothing is left.
Source: Burrow (a group whose offset stands while it lags is stuck); KIP-664 (a transaction hangs that no coordinator knows).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.texts import count_text
from tools.health import answers
from tools.health.asking import Asking
from tools.health.broker_checks import disagreeing
from tools.health.client_checks import REBALANCING
from tools.health.view import ClusterView, GroupView, Key, LagView, ReassignmentView, TransactionView, name_of
from tools.log_dirs_request import log_dirs_request

STEP_MS = 1_000
SETTLED_MS = 1_500
"""Open transactions and disagreements are judged after this time."""
ENOUGH_MS = 5_000
"""A consumer with the usual auto.commit.interval.ms commits within it. A look that had less time calls no group stuck, unless
it was asked for less."""
IDLE_PARTITIONS = 100
"""Of so many partitions, at most, it is read since when groups without members lag: that is a notice."""
MARGIN_MS = 600
"""What is left of the time of a look for the questions behind the window."""

_Standing = dict[tuple[str, Key], LagView]
"""By group and partition."""


class Watching:
    """`led` are the partitions by leader. `run` once."""

    def __init__(self, asking: Asking, view: ClusterView, led: Mapping[int, set[Key]]) -> None:
        self._asking = asking
        self._view = view
        self._led = led
        self._standing: _Standing = {
            (group.group, lag.key): lag
            for group in view.groups
            for lag in group.lags
            if group.members and lag.is_assigned and lag.unread
        }
        idle = {
            (group.group, lag.key): lag
            for group in view.groups
            for lag in group.lags
            if not group.members and group.state not in REBALANCING and lag.unread
        }
        self._idle = idle if len(idle) <= IDLE_PARTITIONS else {}
        self._rebalancing = {group.group for group in view.groups if group.state in REBALANCING}
        self._sizes = self._sizes_now() if view.reassignments else {}
        self._moving = {each.key: frozenset(each.adding) for each in view.reassignments or () if each.adding}
        self._coordinators = {group.group: group.coordinator for group in view.groups}

    def run(self, blocked: set[Key], window_ms: int) -> ClusterView:
        """Return the view with what stands still. `blocked` are partitions with open transactions."""
        opened = self._open_transactions(blocked)
        told = self._told_transactions(opened)
        begun_ms = self._asking.clock.monotonic_ms()
        disagrees = any(disagreeing(self._view))
        while True:
            passed_ms = self._asking.clock.monotonic_ms() - begun_ms
            needs_ms = 0
            if self._standing or self._rebalancing or self._moving:
                needs_ms = window_ms
            elif disagrees or any(each.is_known is False for each in told.values()):
                needs_ms = min(SETTLED_MS, window_ms)
            pause_ms = min(needs_ms - passed_ms, STEP_MS, self._asking.left_ms - MARGIN_MS)
            if pause_ms <= 0:
                break
            self._asking.pause(pause_ms / 1000)
            self._look_again()
        watched_ms = self._asking.clock.monotonic_ms() - begun_ms
        if self._standing and watched_ms < min(window_ms, ENOUGH_MS):
            groups = sorted({group for group, _ in self._standing})
            self._asking.unseen.append(
                f"whether {count_text(len(groups), 'group', 'is', 'are')} stuck "
                f"({', '.join(groups[:3])}{' ...' if len(groups) > 3 else ''}): "
                f"there were only {watched_ms / 1000:.1f} s left to look"
            )
            self._standing = {}
        if disagrees:
            self._hear_again()
        still = self._open_transactions({key for key, _ in opened}).keys() if opened else set()
        for (key, start_offset), each in told.items():
            if each.is_known is None:
                self._asking.unseen.append(
                    f"whether the transaction of {name_of(key)} from offset {start_offset} on hangs: "
                    "not all coordinators answer"
                )
        return replace(
            self._view,
            groups=self._judged_groups(watched_ms),
            transactions=tuple(told[each] for each in opened if each in still),
            reassignments=self._judged_moves(watched_ms),
        )

    # --- groups ---

    def _look_again(self) -> None:
        """Drop what has moved."""
        if self._standing or self._rebalancing:
            groups = {group for group, _ in self._standing} | self._rebalancing
            asked: dict[int, list[str]] = defaultdict(list)
            for group in sorted(groups):
                asked[self._coordinators[group]].append(group)
            self._drop_moved({broker: names for broker, names in asked.items() if self._standing})
            self._drop_settled(
                {broker: [name for name in names if name in self._rebalancing] for broker, names in asked.items()}
            )
        if self._moving:
            # A broker copies some partitions after others: who waits behind one that grows does not stand still.
            now = self._sizes_now()
            copying = {
                broker
                for key, brokers in self._moving.items()
                for broker in brokers
                if self._sizes.get((key, broker)) != now.get((key, broker))
            }
            self._moving = {key: brokers for key, brokers in self._moving.items() if not brokers & copying}

    def _drop_moved(self, asked: Mapping[int, list[str]]) -> None:
        found = self._asking.each(
            "offsets of groups", {broker: answers.offset_fetch_request(names) for broker, names in asked.items()}
        )
        heard = {broker: answers.commits(answer) for broker, answer in found.items()}
        self._standing = {
            (group, key): lag
            for (group, key), lag in self._standing.items()
            if heard.get(self._coordinators[group], {}).get(group, {}).get(key) == lag.committed
        }

    def _drop_settled(self, asked: Mapping[int, list[str]]) -> None:
        found = self._asking.each(
            "groups", {broker: answers.describe_groups_request(names) for broker, names in asked.items() if names}
        )
        self._rebalancing &= {
            group.group_id for answer in found.values() for group in answer.groups if group.group_state in REBALANCING
        }

    def _judged_groups(self, watched_ms: int) -> tuple[GroupView, ...]:
        standing = {key for _, key in self._standing}
        places = {(lag.key, lag.place) for lag in (*self._standing.values(), *self._idle.values())}
        ends: dict[Key, int] = {}
        unread: dict[tuple[Key, int], answers.FirstUnread] = {}
        for broker, keys in self._led.items():
            if keys & standing:
                request = answers.list_offsets_request(keys & standing)
                for answer in self._asking.each("offsets", {broker: request}).values():
                    ends |= answers.offsets(answer)
            # Groups that wait at different offsets of a partition are asked for one after the other.
            for asked in _rounds({place for place in places if place[0] in keys}):
                for answer in self._asking.each("records", {broker: answers.fetch_request(asked)}).values():
                    unread |= {(key, asked[key]): first for key, first in answers.first_unread(answer, asked).items()}
        return tuple(
            replace(
                group,
                lags=tuple(self._judged(group, lag, ends, unread, watched_ms) for lag in group.lags),
                rebalanced_ms=watched_ms if group.group in self._rebalancing else None,
            )
            for group in self._view.groups
        )

    def _judged(
        self,
        group: GroupView,
        lag: LagView,
        ends: Mapping[Key, int],
        unread: Mapping[tuple[Key, int], answers.FirstUnread],
        watched_ms: int,
    ) -> LagView:
        first = unread.get((lag.key, lag.place), answers.FirstUnread(is_there=True))
        if not first.is_there:
            return replace(lag, start=lag.end)  # markers are nothing to read
        if (group.group, lag.key) not in self._standing:
            return replace(lag, oldest_unread_ms=first.time_ms)
        end = ends.get(lag.key, lag.end)
        return replace(lag, end=end, grown=max(end - lag.end, 0), stood_ms=watched_ms, oldest_unread_ms=first.time_ms)

    # --- transactions ---

    def _open_transactions(self, keys: set[Key]) -> dict[tuple[Key, int], Any]:
        found: dict[tuple[Key, int], Any] = {}
        asked = {
            broker: answers.describe_producers_request(led & keys) for broker, led in self._led.items() if led & keys
        }
        for answer in self._asking.each("producers", asked).values():
            found |= answers.open_transactions(answer)
        return found

    def _told_transactions(self, opened: Mapping[tuple[Key, int], Any]) -> dict[tuple[Key, int], TransactionView]:
        """Ask the coordinators about open transactions."""
        if not opened:
            return {}
        ids = {producer.producer_id for producer in opened.values()}
        listed = self._asking.everybody("transactions", lambda: answers.list_transactions_request(ids))
        asked = {
            broker: answers.describe_transactions_request([each.transactional_id for each in answer.transaction_states])
            for broker, answer in listed.items()
            if answer.transaction_states
        }
        states = [
            state
            for answer in self._asking.each("transactions", asked).values()
            for state in answer.transaction_states
            if not state.error_code
        ]
        all_answered = len(listed) == len(self._view.brokers) and self._coordinators_have_leaders()
        return {
            place: _transaction(place, producer, states, all_answered=all_answered)
            for place, producer in opened.items()
        }

    def _coordinators_have_leaders(self) -> bool:
        return all(each.leader is not None for each in self._view.partitions if each.topic == "__transaction_state")

    # --- reassignments and statements ---

    def _sizes_now(self) -> dict[tuple[Key, int], int]:
        """Return the bytes on each broker to which a partition moves, and on no other: the others grow by being written."""
        keys: dict[int, set[Key]] = defaultdict(set)
        for each in self._view.reassignments or ():
            for broker in each.adding:
                keys[broker].add(each.key)
        found: dict[tuple[Key, int], int] = {}
        asked = {broker: log_dirs_request(wanted) for broker, wanted in keys.items()}
        for broker, answer in sorted(self._asking.each("log directories", asked).items()):
            for directory in answers.log_directories(answer):
                found |= {(key, broker): size for key, size in directory.sizes.items()}
        return found

    def _judged_moves(self, watched_ms: int) -> tuple[ReassignmentView, ...] | None:
        if self._view.reassignments is None:
            return None
        return tuple(
            replace(each, stood_ms=watched_ms if each.key in self._moving else None)
            for each in self._view.reassignments
        )

    def _hear_again(self) -> None:
        """Ask once more what brokers say, so that a change that is on its way is no disagreement."""
        from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

        compares = any(statement.leaders for each in self._view.brokers.values() for statement in each.statements)
        said = self._asking.everybody("metadata", lambda: MetadataRequest(topics=None if compares else []))
        self._view = replace(
            self._view,
            brokers={
                broker: replace(each, statements=(*each.statements, answers.statement(said[broker])))
                if broker in said
                else each
                for broker, each in self._view.brokers.items()
            },
        )


def _rounds(places: set[tuple[Key, int]]) -> list[dict[Key, int]]:
    """Return the places as mappings that each name a partition once."""
    rounds: list[dict[Key, int]] = []
    for key, offset in sorted(places):
        free = next((each for each in rounds if key not in each), None)
        if free is None:
            rounds.append({key: offset})
        else:
            free[key] = offset
    return rounds


def _transaction(place: tuple[Key, int], producer: Any, states: list[Any], *, all_answered: bool) -> TransactionView:
    key, start_offset = place
    mine = next((each for each in states if each.producer_id == producer.producer_id), None)
    is_open = mine is not None and _has(mine, key)
    return TransactionView(
        key=key,
        start_offset=start_offset,
        producer_id=producer.producer_id,
        last_written_ms=producer.last_timestamp if producer.last_timestamp >= 0 else None,
        is_known=True if is_open else False if all_answered else None,
        transactional_id=mine.transactional_id if mine is not None and is_open else None,
        state=mine.transaction_state if mine is not None and is_open else None,
        started_ms=mine.transaction_start_time_ms if mine is not None and is_open and mine.transaction_start_time_ms >= 0
        else None,
        timeout_ms=mine.transaction_timeout_ms if mine is not None and is_open else None,
    )  # fmt: skip


def _has(state: Any, key: Key) -> bool:
    return state.transaction_state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence") and any(
        topic.topic == key[0] and key[1] in topic.partitions for topic in state.topics
    )
