"""The coordinator's side of transactions. The case is a transactional producer, an administrator, or a broker that verifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.primitives import ZERO_UUID
from tests.differential.play import TRANSACTIONS, Run, case

BATCHED = 4
UNKNOWN_PRODUCER_ID = 987_654_321


@dataclass
class Coordinated:
    """A producer with a transactional id whose coordinator is ready."""

    run: Run
    short: str = "tx"
    producer_id: int = -1
    epoch: int = -1

    def __post_init__(self) -> None:
        self.name = self.run.name(self.short)

        def is_ready() -> bool:
            (found,) = self.run.do(FindCoordinatorRequest(coordinator_keys=[self.name], key_type=1), 4).coordinators
            return found.error_code == 0 and self.described().error_code in (0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

        self.run.until(f"there is a coordinator for {self.name}", is_ready)

    # --- requests ---

    def initializing(self, timeout_ms: int = 60_000, *, expected: tuple[int, int] = (-1, -1)) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms, producer_id=expected[0],
            producer_epoch=expected[1],
        )  # fmt: skip

    def adding(self, topics: dict[str, list[int]], *, verify: bool = False) -> AddPartitionsToTxnRequest:
        """In the form of the version that is played."""
        rows = [AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
        if self.run.case.api is AddPartitionsToTxnRequest and self.run.version < BATCHED:
            return self.adding_as_client(rows)
        return AddPartitionsToTxnRequest(transactions=[self.transaction(rows, verify=verify)])

    def adding_as_client(self, topics: list[AddPartitionsToTxnTopic]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name, v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch, v3_and_below_topics=topics,
        )  # fmt: skip

    def transaction(
        self, topics: list[AddPartitionsToTxnTopic], *, verify: bool = False
    ) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, verify_only=verify,
            topics=topics,
        )  # fmt: skip

    def adding_offsets(self, group: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )

    def ending(self, *, commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )

    # --- what prepares ---

    def init(self, timeout_ms: int = 60_000) -> None:
        answer = self.run.do(self.initializing(timeout_ms))
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.run.names.numbered("producer", self.producer_id)

    def add(self, topic: str, *partitions: int) -> None:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))]
        answer = self.run.do(self.adding_as_client(topics), 3)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0, answer

    def end(self, *, commit: bool = True) -> None:
        answer = self.run.do(self.ending(commit=commit))
        assert answer.error_code == 0, answer
        self.until("CompleteCommit" if commit else "CompleteAbort")

    def described(self) -> Any:
        (row,) = self.run.do(DescribeTransactionsRequest(transactional_ids=[self.name])).transaction_states
        return row

    def until(self, state: str) -> None:
        self.run.until(f"{self.name} is {state}", lambda: self.described().transaction_state == state)

    def stick(self, topic: str, *, commit: bool = True) -> None:
        """Decide a transaction whose marker a partition refuses for ever: it knows a newer epoch of the producer."""
        self.add(topic)
        marker = WritableTxnMarker(
            producer_id=self.producer_id, producer_epoch=self.epoch + 5, transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])], coordinator_epoch=0,
        )  # fmt: skip
        self.run.do(WriteTxnMarkersRequest(markers=[marker]))
        answer = self.run.do(self.ending(commit=commit))
        assert answer.error_code == 0, answer
        self.until("PrepareCommit" if commit else "PrepareAbort")


def in_order(answer: Any) -> None:
    """Apache Kafka describes partitions in the order of a hash map."""
    for row in answer.transaction_states:
        for topic in row.topics:
            topic.partitions.sort()
        row.topics.sort(key=lambda topic: topic.topic)


# --- InitProducerId ---


@case(InitProducerIdRequest, "normal", stage=TRANSACTIONS)
def of_a_transactional_id(run: Run) -> None:
    one = Coordinated(run)
    for _ in range(3):
        run.ask(one.initializing())
    run.ask(Coordinated(run, "other").initializing())


@case(InitProducerIdRequest, "normal", stage=TRANSACTIONS)
def aborts_an_open_transaction(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    one.add(run.topic())
    run.ask(one.initializing())
    one.until("CompleteAbort")
    run.ask(one.initializing())
    run.ask(one.ending(commit=False), 4)


@case(InitProducerIdRequest, "edge", stage=TRANSACTIONS)
def after_a_transaction(run: Run) -> None:
    topic = run.topic()
    for commit in (True, False):
        one = Coordinated(run, f"tx-{commit}")
        one.init()
        one.add(topic)
        one.end(commit=commit)
        run.ask(one.initializing(5_000))
        run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0)


@case(InitProducerIdRequest, "normal", "3+", stage=TRANSACTIONS)
def bump_of_the_epoch(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    had = (one.producer_id, 0)
    run.ask(one.initializing(expected=had))
    run.ask(one.initializing(expected=had))
    run.ask(one.initializing(expected=(one.producer_id, 1)))
    run.ask(one.initializing(expected=had))
    run.ask(one.initializing())
    run.ask(one.initializing(expected=(one.producer_id, 2)))


@case(InitProducerIdRequest, "edge", "3+", stage=TRANSACTIONS)
def bump_of_what_is_not_known(run: Run) -> None:
    one = Coordinated(run)
    run.ask(one.initializing(expected=(UNKNOWN_PRODUCER_ID, 3)))
    for expected in ((UNKNOWN_PRODUCER_ID, 0), (UNKNOWN_PRODUCER_ID, 32766), (UNKNOWN_PRODUCER_ID, -1), (-1, 3)):
        run.ask(one.initializing(expected=expected))


@case(InitProducerIdRequest, "edge", "3+", stage=TRANSACTIONS)
def bump_while_a_transaction_is_open(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    one.add(run.topic())
    run.ask(one.initializing(expected=(one.producer_id, 9)))
    one.until("CompleteAbort")
    run.ask(one.initializing(expected=(one.producer_id, 0)))
    run.ask(one.initializing(expected=(one.producer_id, 1)))


@case(InitProducerIdRequest, "wrong", stage=TRANSACTIONS)
def timeouts_of_transactions(run: Run) -> None:
    one = Coordinated(run)
    for timeout_ms in (0, -1, 900_001, 0x7FFFFFFF):
        run.ask(one.initializing(timeout_ms))
    run.ask(one.initializing(900_000))


@case(InitProducerIdRequest, "wrong", stage=TRANSACTIONS)
def while_markers_are_written(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    one.stick(run.topic())
    run.ask(one.initializing())
    if run.version >= 3:
        run.ask(one.initializing(expected=(UNKNOWN_PRODUCER_ID, 0)))


# --- AddPartitionsToTxn ---


@case(AddPartitionsToTxnRequest, "normal", stage=TRANSACTIONS)
def partitions_of_two_topics(run: Run) -> None:
    topic, other = run.topic("t", 3), run.topic("u")
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({topic: [0, 2]}))
    run.ask(one.adding({topic: [2, 1], other: [0]}))
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0, pick=in_order)


@case(AddPartitionsToTxnRequest, "normal", "4+", stage=TRANSACTIONS)
def verification(run: Run) -> None:
    topic = run.topic("t", 2)
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({topic: [0]}, verify=True))
    one.add(topic)
    run.ask(one.adding({topic: [0]}, verify=True))
    run.ask(one.adding({topic: [0, 1]}, verify=True))
    run.ask(one.adding({topic: []}, verify=True))
    one.end()
    run.ask(one.adding({topic: [0]}, verify=True))


@case(AddPartitionsToTxnRequest, "normal", "4+", stage=TRANSACTIONS)
def several_transactions(run: Run) -> None:
    topic = run.topic("t", 2)
    one, two, three = Coordinated(run, "one"), Coordinated(run, "two"), Coordinated(run, "three")
    for each in (one, two):
        each.init()
    three.producer_id, three.epoch = UNKNOWN_PRODUCER_ID, 0
    rows = [AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])]
    run.ask(
        AddPartitionsToTxnRequest(
            transactions=[one.transaction(rows), two.transaction(rows, verify=True), three.transaction(rows)]
        )
    )


@case(AddPartitionsToTxnRequest, "edge", stage=TRANSACTIONS)
def partitions_twice_and_again(run: Run) -> None:
    topic = run.topic()
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({topic: [0, 0]}))
    run.ask(one.adding({topic: [0]}))
    one.end(commit=False)
    run.ask(one.adding({topic: [0]}))


@case(AddPartitionsToTxnRequest, "edge", stage=TRANSACTIONS)
def topics_without_partitions(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({run.topic(): []}))
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0)
    run.ask(one.adding({run.name("none"): []}))


@case(AddPartitionsToTxnRequest, "edge", "0-3", stage=TRANSACTIONS)
def no_topics(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    for _ in range(2):
        run.ask(one.adding({}), may_be_silent=True)
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0)
    run.ask(one.ending(), 4)
    one.until("CompleteCommit")


@case(AddPartitionsToTxnRequest, "edge", "4+", stage=TRANSACTIONS)
def no_transactions(run: Run) -> None:
    run.ask(AddPartitionsToTxnRequest(transactions=[]), may_be_silent=True)


@case(AddPartitionsToTxnRequest, "edge", "4+", stage=TRANSACTIONS)
def a_transaction_without_topics_and_one_twice(run: Run) -> None:
    topic = run.topic("t", 2)
    one = Coordinated(run)
    one.init()
    one.add(topic)
    rows = [[AddPartitionsToTxnTopic(name=topic, partitions=[index])] for index in (0, 1)]
    for verify in (True, False):
        run.ask(AddPartitionsToTxnRequest(transactions=[one.transaction([], verify=verify)]))
        run.ask(
            AddPartitionsToTxnRequest(transactions=[one.transaction(each, verify=verify) for each in rows]),
            may_be_silent=True,
        )


@case(AddPartitionsToTxnRequest, "wrong", stage=TRANSACTIONS)
def partitions_that_do_not_exist(run: Run) -> None:
    topic = run.topic()
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({topic: [0, 7], run.name("none"): [0]}))
    run.ask(one.adding({topic: [-1]}))
    run.ask(one.adding({"": [0], "not/a topic": [0]}))
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0)


@case(AddPartitionsToTxnRequest, "wrong", stage=TRANSACTIONS)
def internal_topics(run: Run) -> None:
    run.group()
    one = Coordinated(run)
    one.init()
    run.ask(one.adding({run.topic(): [0], "__consumer_offsets": [0]}))
    run.ask(one.adding({"__transaction_state": [0]}))


@case(AddPartitionsToTxnRequest, "wrong", stage=TRANSACTIONS)
def producers_that_are_not_the_current_one(run: Run) -> None:
    topic = run.topic()
    one = Coordinated(run)
    run.ask(one.adding({topic: [0]}))
    one.init()
    one.init()
    known = one.producer_id, one.epoch
    for producer_id, epoch in ((known[0], 0), (known[0], 2), (UNKNOWN_PRODUCER_ID, 1), (UNKNOWN_PRODUCER_ID, 0)):
        one.producer_id, one.epoch = producer_id, epoch
        run.ask(one.adding({topic: [0]}))
        if run.version >= BATCHED:
            run.ask(one.adding({topic: [0]}, verify=True))
    one.name = ""
    run.ask(one.adding({topic: [0]}))
    if run.version >= BATCHED:
        run.ask(one.adding({topic: [0]}, verify=True))


@case(AddPartitionsToTxnRequest, "wrong", stage=TRANSACTIONS)
def partitions_while_markers_are_written(run: Run) -> None:
    topic = run.topic("t", 2)
    one = Coordinated(run)
    one.init()
    one.stick(topic)
    run.ask(one.adding({topic: [0]}))
    run.ask(one.adding({topic: [1]}))
    if run.version >= BATCHED:
        run.ask(one.adding({topic: [0, 1]}, verify=True))


# --- AddOffsetsToTxn ---


@case(AddOffsetsToTxnRequest, "normal", stage=TRANSACTIONS)
def of_two_groups(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    for group in (run.group("g"), run.group("h")):
        run.ask(one.adding_offsets(group))
    one.end()
    run.ask(one.adding_offsets(run.group("g")))


@case(AddOffsetsToTxnRequest, "edge", stage=TRANSACTIONS)
def an_empty_group_and_again(run: Run) -> None:
    run.group()
    one = Coordinated(run)
    one.init()
    for _ in range(2):
        run.ask(one.adding_offsets(""))
    (row,) = run.do(DescribeTransactionsRequest(transactional_ids=[one.name])).transaction_states
    run.note([[topic.topic, topic.partitions] for topic in row.topics])


@case(AddOffsetsToTxnRequest, "wrong", stage=TRANSACTIONS)
def of_producers_that_are_not_the_current_one(run: Run) -> None:
    group = run.group()
    one = Coordinated(run)
    run.ask(one.adding_offsets(group))
    one.init()
    for producer_id, epoch in ((one.producer_id, 1), (UNKNOWN_PRODUCER_ID, 0)):
        one.producer_id, one.epoch = producer_id, epoch
        run.ask(one.adding_offsets(group))
    one.name = ""
    run.ask(one.adding_offsets(group))


@case(AddOffsetsToTxnRequest, "wrong", stage=TRANSACTIONS)
def offsets_while_markers_are_written(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    one.stick(run.topic())
    run.ask(one.adding_offsets(run.group()))


# --- EndTxn ---


@case(EndTxnRequest, "normal", stage=TRANSACTIONS)
def commit_and_abort_of_transactions(run: Run) -> None:
    topic = run.topic()
    one = Coordinated(run)
    one.init()
    for commit in (True, False):
        one.add(topic)
        run.ask(one.ending(commit=commit))
        one.until("CompleteCommit" if commit else "CompleteAbort")


@case(EndTxnRequest, "edge", stage=TRANSACTIONS)
def again_and_the_other_way(run: Run) -> None:
    topic = run.topic()
    for commit in (True, False):
        one = Coordinated(run, f"tx-{commit}")
        one.init()
        one.add(topic)
        one.end(commit=commit)
        run.ask(one.ending(commit=commit))
        run.ask(one.ending(commit=not commit))


@case(EndTxnRequest, "edge", stage=TRANSACTIONS)
def of_a_transaction_that_timed_out(run: Run) -> None:
    one = Coordinated(run)
    one.init(200)
    one.add(run.topic())
    one.until("CompleteAbort")
    run.ask(one.ending())
    run.ask(one.ending(commit=False))
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name]), 0)
    one.init(200)
    run.ask(one.ending())
    one.epoch -= 1
    run.ask(one.ending())


@case(EndTxnRequest, "edge", stage=TRANSACTIONS)
def of_a_topic_that_is_gone(run: Run) -> None:
    from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    kept, gone = run.topic("kept"), run.topic("gone")
    one = Coordinated(run)
    one.init()
    one.add(kept)
    one.add(gone)
    run.do(DeleteTopicsRequest(topics=[DeleteTopicState(name=gone, topic_id=ZERO_UUID)], timeout_ms=30_000))
    run.ask(one.ending())
    one.until("CompleteCommit")


@case(EndTxnRequest, "wrong", stage=TRANSACTIONS)
def without_a_transaction(run: Run) -> None:
    one = Coordinated(run)
    for commit in (True, False):
        run.ask(one.ending(commit=commit))
    one.init()
    for commit in (True, False):
        run.ask(one.ending(commit=commit))
    for producer_id, epoch in ((one.producer_id, 1), (UNKNOWN_PRODUCER_ID, 0), (-1, -1)):
        one.producer_id, one.epoch = producer_id, epoch
        run.ask(one.ending())
    one.name = ""
    run.ask(one.ending())


@case(EndTxnRequest, "wrong", stage=TRANSACTIONS)
def the_end_while_markers_are_written(run: Run) -> None:
    for commit in (True, False):
        one = Coordinated(run, f"tx-{commit}")
        one.init()
        one.stick(run.topic(f"t-{commit}"), commit=commit)
        run.ask(one.ending(commit=commit))
        run.ask(one.ending(commit=not commit))


@case(EndTxnRequest, "edge", stage=TRANSACTIONS)
def of_a_producer_that_another_one_follows(run: Run) -> None:
    topic = run.topic()
    old, new = Coordinated(run), Coordinated(run)
    old.init()
    old.add(topic)
    run.do(new.initializing())
    new.until("CompleteAbort")
    new.init()
    run.ask(old.ending())
    new.add(topic)
    run.ask(old.ending(commit=False))
    run.ask(new.ending())


# --- DescribeTransactions ---


@case(DescribeTransactionsRequest, "normal", stage=TRANSACTIONS)
def transactions_in_every_state(run: Run) -> None:
    topic = run.topic("t", 3)
    names = []
    for state in ("empty", "open", "committed", "aborted", "committing", "aborting"):
        one = Coordinated(run, state)
        names.append(one.name)
        one.init()
        if state == "open":
            one.add(topic, 0, 2)
        elif state.endswith("ed"):
            one.add(topic, 1)
            one.end(commit=state == "committed")
        elif state.endswith("ing"):
            one.stick(run.topic(state), commit=state == "committing")
    run.ask(DescribeTransactionsRequest(transactional_ids=names), pick=in_order)


@case(DescribeTransactionsRequest, "edge", stage=TRANSACTIONS)
def no_transactions_and_one_twice(run: Run) -> None:
    run.ask(DescribeTransactionsRequest(transactional_ids=[]))
    one = Coordinated(run)
    one.init()
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name, one.name]))


@case(DescribeTransactionsRequest, "wrong", stage=TRANSACTIONS)
def transactions_that_are_not_known(run: Run) -> None:
    one = Coordinated(run)
    run.ask(DescribeTransactionsRequest(transactional_ids=[one.name, ""]))


# --- ListTransactions ---


def listing(*states: str, ids: tuple[int, ...] = (), longer_than_ms: int = -1) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(ids), duration_filter=longer_than_ms
    )


def own(run: Run) -> Any:
    """Drops the rows of other cases."""

    def pick(answer: Any) -> None:
        answer.transaction_states = [
            row for row in answer.transaction_states if row.transactional_id.startswith(run.prefix)
        ]

    return pick


@case(ListTransactionsRequest, "normal", stage=TRANSACTIONS)
def transactions_by_state_and_producer(run: Run) -> None:
    topic = run.topic()
    empty, opened, ended, stuck = (Coordinated(run, short) for short in ("empty", "open", "ended", "stuck"))
    for each in (empty, opened, ended, stuck):
        each.init()
    opened.add(topic)
    ended.add(topic)
    ended.end()
    stuck.stick(run.topic("u"))
    run.ask(listing(), pick=own(run))
    run.ask(listing("Ongoing"), pick=own(run))
    run.ask(listing("Empty", "PrepareCommit", "CompleteCommit"), pick=own(run))
    run.ask(listing(ids=(opened.producer_id, ended.producer_id)), pick=own(run))
    run.ask(listing("Empty", ids=(opened.producer_id,)), pick=own(run))


@case(ListTransactionsRequest, "normal", "1+", stage=TRANSACTIONS)
def transactions_by_duration(run: Run) -> None:
    empty, opened = Coordinated(run, "empty"), Coordinated(run, "open")
    empty.init()
    opened.init()
    opened.add(run.topic())
    run.until(
        "the transaction is 50 ms old",
        lambda: any(
            row.transactional_id == opened.name for row in run.do(listing(longer_than_ms=50)).transaction_states
        ),
    )
    for longer_than_ms in (-5, 0, 50, 3_600_000, 1 << 62):
        run.ask(listing(longer_than_ms=longer_than_ms), pick=own(run))
    run.ask(listing("Ongoing", longer_than_ms=3_600_000), pick=own(run))


@case(ListTransactionsRequest, "edge", stage=TRANSACTIONS)
def states_that_no_transaction_has(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    run.ask(listing("Dead", "PrepareEpochFence"), pick=own(run))
    run.ask(listing("Empty", "Empty"), pick=own(run))
    run.ask(listing(ids=(-1,)), pick=own(run))


@case(ListTransactionsRequest, "wrong", stage=TRANSACTIONS)
def states_that_do_not_exist(run: Run) -> None:
    one = Coordinated(run)
    one.init()
    run.ask(listing("Nonsense"), pick=own(run))
    run.ask(listing("empty", "Empty", "", "empty"), pick=own(run))


# --- FindCoordinator ---


@case(FindCoordinatorRequest, "normal", "1+", stage=TRANSACTIONS)
def of_a_transaction(run: Run) -> None:
    one = Coordinated(run)
    if run.version >= 4:
        run.ask(FindCoordinatorRequest(coordinator_keys=[one.name, run.name("other"), ""], key_type=1))
    else:
        run.ask(FindCoordinatorRequest(key=one.name, key_type=1))
        run.ask(FindCoordinatorRequest(key="", key_type=1))
