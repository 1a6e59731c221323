"""Any history: what is in memory is what the log holds, epochs only grow, markers follow decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.transaction.markers import MarkerOutcome
from coordinator.transaction.records import TransactionKey, read_key, read_transaction, transaction_record
from coordinator.transaction.transaction import LAST_CLIENT_EPOCH, TransactionState
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH
from tests.coordinator.transaction.shard_driver import ORDERS, PAYMENTS, TransactionDriver

NAMES = st.sampled_from(["t", "u"])
BOOLEANS = st.booleans()
VERSIONS = st.sampled_from([ONE_EPOCH, EPOCH_BUMPS])


_ENDED = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
BEFORE = {
    TransactionState.EMPTY: _ENDED,
    TransactionState.ONGOING: {TransactionState.ONGOING, *_ENDED},
    TransactionState.PREPARE_COMMIT: {TransactionState.ONGOING},
    TransactionState.PREPARE_ABORT: {TransactionState.ONGOING, *_ENDED},  # the latter where an end raises the epoch
    TransactionState.COMPLETE_COMMIT: {TransactionState.PREPARE_COMMIT},
    TransactionState.COMPLETE_ABORT: {TransactionState.PREPARE_ABORT},
}


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = TransactionDriver()
        self.producers: dict[str, TransactionalProducer] = {}
        self.newest: dict[int, int] = {}
        self.given: set[tuple[int, int]] = set()

    @rule(name=NAMES, says_what_it_had=BOOLEANS)
    def init(self, name: str, says_what_it_had: bool) -> None:
        had = self.producers.get(name)
        expected = (had.producer_id, had.producer_epoch) if had is not None and says_what_it_had else None
        answer = self.driver.init(name, expected=expected)
        if answer is not None and answer[0] is ErrorCode.NONE:
            self.producers[name] = TransactionalProducer(name, answer[1], answer[2])
            if expected is None:
                assert answer[1:] not in self.given, "two producers have one epoch"
            self.given.add(answer[1:])

    @rule(level=st.sampled_from([0, 2]))
    def level(self, level: int) -> None:
        self.driver.level = level

    @rule(name=NAMES)
    def use_up_epochs(self, name: str) -> None:
        """The producer goes on with its last epoch, which most histories do not reach."""
        subject = self.driver.shard.durable_state().get(name)
        if subject is not None and subject.state.may_expire and name in self.producers:
            stored = replace(subject, producer_epoch=LAST_CLIENT_EPOCH, state=TransactionState.EMPTY)
            if self.driver.store(transaction_record(name, stored, 2)):
                self.producers[name] = TransactionalProducer(name, stored.producer_id, LAST_CLIENT_EPOCH)

    @rule(name=NAMES, both=BOOLEANS, version=VERSIONS)
    def add(self, name: str, both: bool, version: int) -> None:
        if name in self.producers:
            self.driver.add(self.producers[name], [ORDERS, PAYMENTS] if both else [ORDERS], version)

    @rule(name=NAMES, version=VERSIONS)
    def begin(self, name: str, version: int) -> None:
        """What most histories need first."""
        self.driver.release()
        self.driver.refuse_with = None
        self.driver.write_markers()
        self.init(name, says_what_it_had=False)
        self.add(name, both=False, version=version)

    @rule(name=NAMES, commit=BOOLEANS, version=VERSIONS, is_lost=BOOLEANS)
    def end(self, name: str, commit: bool, version: int, is_lost: bool = False) -> None:
        """`is_lost`: the client does not get the response, and repeats its request."""
        if name in self.producers:
            response = self.driver.end_in_full(self.producers[name], commit=commit, version=version)
            if response is not None and response.producer_id >= 0 and not is_lost:
                assert version == EPOCH_BUMPS and response.producer_epoch <= LAST_CLIENT_EPOCH
                self.producers[name] = TransactionalProducer(name, response.producer_id, response.producer_epoch)

    @rule(name=NAMES, commit=BOOLEANS, version=VERSIONS)
    def end_without_an_outcome(self, name: str, commit: bool, version: int) -> None:
        self.driver.is_holding = True
        self.end(name, commit, version)
        self.driver.time_out()

    @rule()
    def hold(self) -> None:
        self.driver.is_holding = True

    @rule()
    def release(self) -> None:
        self.driver.release()

    @rule()
    def time_out(self) -> None:
        self.driver.time_out()

    @rule()
    def fail(self) -> None:
        self.driver.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @rule(refused=BOOLEANS)
    def refuse(self, refused: bool) -> None:
        self.driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS if refused else None

    @rule(outcome=st.sampled_from(MarkerOutcome))
    def write_markers(self, outcome: MarkerOutcome) -> None:
        self.driver.write_markers(outcome)

    @rule(duration_ms=st.sampled_from([1, 100, 60_001, 8 * 24 * 3_600_000]))
    def advance(self, duration_ms: int) -> None:
        self.driver.advance(duration_ms)

    @rule()
    def abort_overdue(self) -> None:
        self.driver.abort_overdue()

    @rule()
    def expire(self) -> None:
        self.driver.expire()

    @rule()
    def reelect(self) -> None:
        self.driver.reelect()

    @rule()
    def reload(self) -> None:
        self.driver.reload()

    @invariant()
    def memory_equals_the_log(self) -> None:
        assert self.driver.loaded_again().durable_state() == self.driver.shard.durable_state()
        assert self.driver.loaded_again().open_ids() == self.driver.shard.open_ids()

    @invariant()
    def the_log_has_legal_transitions(self) -> None:
        """A record that follows another one of its id was decided with knowledge of it."""
        states: dict[str, TransactionState] = {}
        for batch in self.driver.log:
            for record in batch.records:
                key = read_key(record.key)
                assert isinstance(key, TransactionKey)
                before = states.pop(key.transactional_id, TransactionState.EMPTY)
                if record.value is None:
                    assert before.may_expire
                else:
                    after = states[key.transactional_id] = read_transaction(record.value).state
                    assert before in BEFORE[after], (before, after)

    @invariant()
    def epochs_only_grow(self) -> None:
        for stored in self.driver.shard.durable_state().values():
            assert stored.producer_epoch >= self.newest.get(stored.producer_id, 0)
            self.newest[stored.producer_id] = stored.producer_epoch

    @invariant()
    def markers_say_what_was_decided(self) -> None:
        for markers in self.driver.markers:
            stored = self.driver.stored(markers.transactional_id)
            assert stored.state.is_prepared
            assert markers.is_commit == (stored.state.value == "PrepareCommit")
            assert (markers.producer_id, markers.producer_epoch) == (stored.producer_id, stored.producer_epoch)
            assert markers.transaction_version == stored.client_version
            assert markers.coordinator_epoch == self.driver.epoch

    def teardown(self) -> None:
        """When the faults are over nothing hangs."""
        driver = self.driver
        driver.refuse_with = None
        driver.release()
        driver.reelect()
        driver.advance(60_001)
        driver.abort_overdue()
        driver.write_markers()
        driver.advance(driver.settings.completion_retry_ms)
        assert driver.markers == [] and not driver.timers
        waiters = [waiter for waiter, _ in driver.responses]
        assert sorted(waiters) == list(range(driver.last_waiter + 1)), "each request has one response"
        for name in list(driver.shard.durable_state()):
            answer: Any = driver.init(name)
            assert answer[0] is ErrorCode.NONE


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
