"""What is told of a partition whose log directory is offline: no case writes, so all of them share the broker."""

from __future__ import annotations

from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.differential.batches import batch
from tests.differential.cases.fetch import fetching, wanted
from tests.differential.cases.log import EARLIEST, LATEST, deleting, epochs, listing
from tests.differential.cases.metadata import named
from tests.differential.cases.produce import sending
from tests.differential.cases.transactions import producers
from tests.differential.play import LOST, OFFLINE, Run, case

LATER_EPOCH = 9


@case(ProduceRequest, "wrong", "3+", stage=OFFLINE)
def to_an_offline_directory(run: Run) -> None:
    records = batch(b"a")
    for acks in (1, -1, 5):
        run.ask(sending(LOST, (0, records), acks=acks))
    run.ask(sending(LOST, (0, records), acks=0))


@case(FetchRequest, "wrong", "4+", stage=OFFLINE)
def from_an_offline_directory(run: Run) -> None:
    (topic,) = run.do(named(LOST), 12).topics
    run.names.topic_ids[topic.topic_id] = "<id of lost>"
    for epoch in (-1, LATER_EPOCH):
        partition = wanted(run, LOST, 0, topic_id=topic.topic_id, current_leader_epoch=epoch)
        for replica in (-1, -2, 5):
            run.ask(fetching(partition, replica_id=replica))


@case(ListOffsetsRequest, "wrong", stage=OFFLINE)
def of_an_offline_directory(run: Run) -> None:
    for timestamp in (LATEST, EARLIEST, 0):
        for epoch in (-1, LATER_EPOCH):
            run.ask(listing(LOST, timestamp, epoch=epoch))
    run.ask(listing(LOST, LATEST, replica=-2))


@case(DeleteRecordsRequest, "wrong", stage=OFFLINE)
def from_an_offline_directory_(run: Run) -> None:
    run.ask(deleting(LOST, 0))


@case(OffsetForLeaderEpochRequest, "wrong", stage=OFFLINE)
def of_an_offline_directory_(run: Run) -> None:
    for current in (-1, LATER_EPOCH):
        run.ask(epochs(LOST, 0, current=current))


@case(DescribeProducersRequest, "wrong", stage=OFFLINE)
def in_an_offline_directory(run: Run) -> None:
    run.ask(producers(LOST))


@case(WriteTxnMarkersRequest, "wrong", stage=OFFLINE)
def into_an_offline_directory(run: Run) -> None:
    topics = [WritableTxnMarkerTopic(name=LOST, partition_indexes=[0])]
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=topics
    )
    run.ask(WriteTxnMarkersRequest(markers=[marker]))


@case(MetadataRequest, "edge", stage=OFFLINE)
def of_a_topic_in_an_offline_directory(run: Run) -> None:
    if run.version >= 10:
        (topic,) = run.do(named(LOST), 12).topics
        run.names.topic_ids[topic.topic_id] = "<id of lost>"
    run.ask(named(LOST))
