"""Observes what might stand still, again and again, until it has moved or the window ends.

Observed are partitions whose groups lag, groups in a rebalance, transactions that are open in a partition, reassignments, and
brokers that disagree. Whatever has moved is dropped; the observation ends when nothing is left.
Source: Burrow (a group whose offset stands while it lags is stuck); KIP-664 (a transaction hangs that no coordinator knows).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from client.admin import share_groups
from client.admin.offsets import offsets_request
from client.admin.replicas import log_dirs_request
from client.admin.transactions import producers_request
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_producers import ProducerState
from protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from protocol.messages.list_offsets import LATEST
from protocol.messages.list_transactions import ListTransactionsRequest
from runtime.texts import count_text
from tools.health import messages
from tools.health.broker_checks import disagreeing
from tools.health.broker_queries import BrokerQueries
from tools.health.client_checks import REBALANCING
from tools.health.view import ClusterView, GroupView, Key, LagView, ReassignmentView, TransactionView, name_of

STEP_MS = 1_000
SETTLED_MS = 1_500
"""Open transactions and disagreements are judged after this time."""
ENOUGH_MS = 5_000
"""A consumer with the usual auto.commit.interval.ms commits within it. With less time no group is called stuck, unless the
window is shorter."""
IDLE_PARTITIONS = 100
"""Of so many partitions, at most, it is read since when groups without members lag: that is a notice."""
MARGIN_MS = 600
"""What is left of the time of a collection for the queries behind the window."""

_Standing = dict[tuple[str, Key], LagView]
"""By group and partition."""


class Observation:
    """`led` are the partitions by leader. `run` once."""

    def __init__(self, queries: BrokerQueries, view: ClusterView, led: Mapping[int, set[Key]]) -> None:
        self._queries = queries
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
        self._sharing = {group.group for group in view.groups if group.is_share}

    def run(self, blocked: set[Key], window_ms: int) -> ClusterView:
        """Return the view with what stands still. `blocked` are partitions with open transactions."""
        opened = self._open_transactions(blocked)
        transactions = self._transactions(opened)
        begun_ms = self._queries.clock.monotonic_ms()
        disagrees = any(disagreeing(self._view))
        while True:
            passed_ms = self._queries.clock.monotonic_ms() - begun_ms
            needs_ms = 0
            if self._standing or self._rebalancing or self._moving:
                needs_ms = window_ms
            elif disagrees or any(each.is_known is False for each in transactions.values()):
                needs_ms = min(SETTLED_MS, window_ms)
            pause_ms = min(needs_ms - passed_ms, STEP_MS, self._queries.left_ms - MARGIN_MS)
            if pause_ms <= 0:
                break
            self._queries.pause(pause_ms / 1000)
            self._drop()
        observed_ms = self._queries.clock.monotonic_ms() - begun_ms
        if self._standing and observed_ms < min(window_ms, ENOUGH_MS):
            groups = sorted({group for group, _ in self._standing})
            self._queries.unseen.append(
                f"whether {count_text(len(groups), 'group', 'is', 'are')} stuck "
                f"({', '.join(groups[:3])}{' ...' if len(groups) > 3 else ''}): "
                f"there were only {observed_ms / 1000:.1f} s left to look"
            )
            self._standing = {}
        if disagrees:
            self._ask_for_statements()
        still = self._open_transactions({key for key, _ in opened}).keys() if opened else set()
        for (key, start_offset), each in transactions.items():
            if each.is_known is None:
                self._queries.unseen.append(
                    f"whether the transaction of {name_of(key)} from offset {start_offset} on hangs: "
                    "not all coordinators answer"
                )
        return replace(
            self._view,
            groups=self._judged_groups(observed_ms),
            transactions=tuple(transactions[each] for each in opened if each in still),
            reassignments=self._judged_moves(observed_ms),
        )

    # --- groups ---

    def _drop(self) -> None:
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
        committing = {broker: [name for name in names if name not in self._sharing] for broker, names in asked.items()}
        sharing = {broker: [name for name in names if name in self._sharing] for broker, names in asked.items()}
        found = self._queries.ask_each(
            "offsets of groups",
            {broker: messages.offset_fetch_request(names) for broker, names in committing.items() if names},
        )
        commits = {broker: messages.commits(response) for broker, response in found.items()}
        standing_shares = self._standing_shares({broker: names for broker, names in sharing.items() if names})
        self._standing = {
            (group, key): lag
            for (group, key), lag in self._standing.items()
            if (
                (group, key) in standing_shares
                if group in self._sharing
                else commits.get(self._coordinators[group], {}).get(group, {}).get(key) == lag.committed
            )
        }

    def _standing_shares(self, asked: Mapping[int, list[str]]) -> set[tuple[str, Key]]:
        """Return the share partitions whose groups were done with nothing more. The ends are asked for first, so that what
        comes in between is not taken for what was acknowledged."""
        if not asked:
            return set()
        ends = self._ends({key for group, key in self._standing if group in self._sharing})
        found = self._queries.ask_each(
            "offsets of groups", {broker: share_groups.offsets_request(names) for broker, names in asked.items()}
        )
        standing = set()
        for response in found.values():
            for group, offsets in messages.share_offsets(response).items():
                for key, each in offsets.items():
                    lag = self._standing.get((group, key))
                    if lag is None or each.lag is None or key not in ends:
                        continue
                    if each.start_offset == lag.committed and ends[key] - each.lag <= lag.most_done:
                        standing.add((group, key))
        return standing

    def _ends(self, wanted: set[Key]) -> dict[Key, int]:
        """Return the ends of partitions, where their leaders answer."""
        asked = {
            broker: offsets_request(dict.fromkeys(keys & wanted, LATEST))
            for broker, keys in self._led.items()
            if keys & wanted
        }
        ends: dict[Key, int] = {}
        for response in self._queries.ask_each("offsets", asked).values():
            ends |= messages.offsets(response)
        return ends

    def _drop_settled(self, asked: Mapping[int, list[str]]) -> None:
        found = self._queries.ask_each(
            "groups", {broker: DescribeGroupsRequest(groups=names) for broker, names in asked.items() if names}
        )
        self._rebalancing &= {
            group.group_id
            for response in found.values()
            for group in response.groups
            if group.group_state in REBALANCING
        }

    def _judged_groups(self, observed_ms: int) -> tuple[GroupView, ...]:
        standing = {key for _, key in self._standing}
        places = {(lag.key, lag.place) for lag in (*self._standing.values(), *self._idle.values())}
        ends = self._ends(standing)
        unread: dict[tuple[Key, int], messages.FirstUnread] = {}
        for broker, keys in self._led.items():
            # Groups that wait at different offsets of a partition are asked for one after the other.
            for asked in _rounds({place for place in places if place[0] in keys}):
                for response in self._queries.ask_each("records", {broker: messages.fetch_request(asked)}).values():
                    first = messages.first_unread(response, asked)
                    unread |= {(key, asked[key]): each for key, each in first.items()}
        return tuple(
            replace(
                group,
                lags=tuple(self._judged(group, lag, ends, unread, observed_ms) for lag in group.lags),
                rebalanced_ms=observed_ms if group.group in self._rebalancing else None,
            )
            for group in self._view.groups
        )

    def _judged(
        self,
        group: GroupView,
        lag: LagView,
        ends: Mapping[Key, int],
        unread: Mapping[tuple[Key, int], messages.FirstUnread],
        observed_ms: int,
    ) -> LagView:
        first = unread.get((lag.key, lag.place), messages.FirstUnread(is_there=True))
        if not first.is_there:
            return replace(lag, start=lag.end)  # markers are nothing to read
        if (group.group, lag.key) not in self._standing:
            return replace(lag, oldest_unread_ms=first.time_ms)
        end = ends.get(lag.key, lag.end)
        return replace(lag, end=end, grown=max(end - lag.end, 0), stood_ms=observed_ms, oldest_unread_ms=first.time_ms)

    # --- transactions ---

    def _open_transactions(self, keys: set[Key]) -> dict[tuple[Key, int], ProducerState]:
        found: dict[tuple[Key, int], ProducerState] = {}
        asked = {broker: producers_request(led & keys) for broker, led in self._led.items() if led & keys}
        for response in self._queries.ask_each("producers", asked).values():
            found |= messages.open_transactions(response)
        return found

    def _transactions(self, opened: Mapping[tuple[Key, int], ProducerState]) -> dict[tuple[Key, int], TransactionView]:
        """Ask the coordinators about open transactions."""
        if not opened:
            return {}
        ids = {producer.producer_id for producer in opened.values()}
        listed = self._queries.ask_all(
            "transactions", ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(ids))
        )
        asked = {
            broker: DescribeTransactionsRequest(
                transactional_ids=sorted(each.transactional_id for each in response.transaction_states)
            )
            for broker, response in listed.items()
            if response.transaction_states
        }
        states = [
            state
            for response in self._queries.ask_each("transactions", asked).values()
            for state in response.transaction_states
            if not state.error_code
        ]
        all_responded = len(listed) == len(self._view.brokers) and self._coordinators_have_leaders()
        return {
            place: _transaction(place, producer, states, all_responded=all_responded)
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
        for broker, response in sorted(self._queries.ask_each("log directories", asked).items()):
            for directory in messages.log_directories(response):
                found |= {(key, broker): size for key, size in directory.sizes.items()}
        return found

    def _judged_moves(self, observed_ms: int) -> tuple[ReassignmentView, ...] | None:
        if self._view.reassignments is None:
            return None
        return tuple(
            replace(each, stood_ms=observed_ms if each.key in self._moving else None)
            for each in self._view.reassignments
        )

    def _ask_for_statements(self) -> None:
        """Ask once more what brokers say, so that a change that is on its way is no disagreement."""
        compares = any(statement.leaders for each in self._view.brokers.values() for statement in each.statements)
        found = self._queries.ask_all("metadata", messages.metadata_request(None if compares else []))
        self._view = replace(
            self._view,
            brokers={
                broker: replace(each, statements=(*each.statements, messages.statement(found[broker])))
                if broker in found
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


def _transaction(
    place: tuple[Key, int], producer: ProducerState, states: list[TransactionState], *, all_responded: bool
) -> TransactionView:
    key, start_offset = place
    mine = next((each for each in states if each.producer_id == producer.producer_id), None)
    is_open = mine is not None and _has(mine, key)
    return TransactionView(
        key=key,
        start_offset=start_offset,
        producer_id=producer.producer_id,
        last_written_ms=producer.last_timestamp if producer.last_timestamp >= 0 else None,
        is_known=True if is_open else False if all_responded else None,
        transactional_id=mine.transactional_id if mine is not None and is_open else None,
        state=mine.transaction_state if mine is not None and is_open else None,
        started_ms=mine.transaction_start_time_ms if mine is not None and is_open and mine.transaction_start_time_ms >= 0
        else None,
        timeout_ms=mine.transaction_timeout_ms if mine is not None and is_open else None,
    )  # fmt: skip


def _has(state: TransactionState, key: Key) -> bool:
    return state.transaction_state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence") and any(
        topic.topic == key[0] and key[1] in topic.partitions for topic in state.topics
    )
