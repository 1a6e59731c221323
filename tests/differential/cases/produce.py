from __future__ import annotations

from typing import Any

from protocol.messages.fetch import FetchPartition, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.differential.batches import MARCH, Batch, Rec, batch, idempotent, message, message_set, wrapper
from tests.differential.cases.init_producer_id import new_producer
from tests.differential.play import Run, case


def sending(
    topic: str, *partitions: tuple[int, bytes | None], acks: int = -1, timeout_ms: int = 30000
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def zstd_free(run: Run, codecs: tuple[int, ...] = (0, 1, 2, 3, 4)) -> tuple[int, ...]:
    """The codecs that this version may carry."""
    return tuple(codec for codec in codecs if codec != 4 or run.version >= 7)


@case(ProduceRequest, "normal")
def batches_with_each_acks(run: Run) -> None:
    topic = run.topic("t", 2)
    for acks in (1, -1):
        run.ask(sending(topic, (0, batch(b"a", b"b", b"c")), (1, batch(b"d")), acks=acks))


@case(ProduceRequest, "normal")
def every_compression(run: Run) -> None:
    topic = run.topic()
    for codec in zstd_free(run):
        run.ask(sending(topic, (0, batch(b"a" * 100, b"b" * 100, codec=codec))))


@case(ProduceRequest, "normal", "3+")
def an_idempotent_producer(run: Run) -> None:
    topic = run.topic()
    producer_id, epoch = new_producer(run)
    run.ask(sending(topic, (0, idempotent(producer_id, epoch, 0, b"a", b"b"))))
    run.ask(sending(topic, (0, idempotent(producer_id, epoch, 2, b"c"))))


@case(ProduceRequest, "normal")
def log_append_time(run: Run) -> None:
    run.ask(sending(run.topic(message_timestamp_type="LogAppendTime"), (0, batch(b"a"))))


@case(ProduceRequest, "edge")
def no_topics(run: Run) -> None:
    run.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]))


@case(ProduceRequest, "edge")
def no_acks_then_metadata(run: Run) -> None:
    topic = run.topic()
    run.send(sending(topic, (0, batch(b"a")), acks=0))
    run.ask(sending(topic, (0, batch(b"b")), acks=1))


@case(ProduceRequest, "edge", "3+")
def sequences_again_and_too_far(run: Run) -> None:
    topic = run.topic()
    producer_id, epoch = new_producer(run)
    for sequence, values in ((0, [b"a", b"b"]), (2, [b"c"]), (0, [b"a", b"b"]), (5, [b"x"]), (3, [b"d"]), (2, [b"c"])):
        run.ask(sending(topic, (0, idempotent(producer_id, epoch, sequence, *values))))


@case(ProduceRequest, "edge", "3+")
def the_sixth_batch_forgets_the_first(run: Run) -> None:
    topic = run.topic()
    producer_id, epoch = new_producer(run)
    for sequence in range(6):
        run.do(sending(topic, (0, idempotent(producer_id, epoch, sequence, b"a"))))
    for sequence in (1, 0):
        run.ask(sending(topic, (0, idempotent(producer_id, epoch, sequence, b"a"))))


@case(ProduceRequest, "edge", "3+")
def sequence_wraps_around(run: Run) -> None:
    topic = run.topic()
    producer_id, epoch = new_producer(run)
    run.ask(sending(topic, (0, idempotent(producer_id, epoch, 0x7FFFFFFF, b"a"))))
    run.ask(sending(topic, (0, idempotent(producer_id, epoch, 0, b"b"))))


@case(ProduceRequest, "edge", "3+")
def first_sequence_of_an_unknown_producer(run: Run) -> None:
    run.ask(sending(run.topic(), (0, idempotent(987654, 0, 5, b"a"))))


@case(ProduceRequest, "edge", "3+")
def producer_epochs(run: Run) -> None:
    topic = run.topic()
    run.ask(sending(topic, (0, idempotent(987655, 3, 0, b"a"))))
    run.ask(sending(topic, (0, idempotent(987655, 2, 1, b"old"))))
    run.ask(sending(topic, (0, idempotent(987655, 4, 1, b"bumped, not from 0"))))
    run.ask(sending(topic, (0, idempotent(987655, 4, 0, b"bumped"))))


@case(ProduceRequest, "edge", "3+")
def half_an_identity(run: Run) -> None:
    topic = run.topic()
    for fields in ((987656, -1, -1), (987656, 0, -1), (-1, 0, 0), (987656, -1, 0)):
        records = batch(b"a", producer_id=fields[0], producer_epoch=fields[1], base_sequence=fields[2])
        run.ask(sending(topic, (0, records)))


@case(ProduceRequest, "edge", "3+")
def far_timestamps(run: Run) -> None:
    topic = run.topic()
    for stamp in (100_000_000_000_000, -1, -5, 0):
        run.ask(sending(topic, (0, batch(b"a", base_timestamp=stamp))))


@case(ProduceRequest, "edge", "3+")
def headers_and_null_values(run: Run) -> None:
    topic = run.topic()
    rec = [Rec(key=None, value=None), Rec(headers=[(b"h", None), (b"", b"x")])]
    run.ask(sending(topic, (0, Batch(records=rec).encode())))


@case(ProduceRequest, "edge")
def a_name_twice(run: Run) -> None:
    request = sending(run.topic("t", 2), (0, batch(b"a")))
    request.topic_data.append(
        TopicProduceData(
            name=request.topic_data[0].name, partition_data=[PartitionProduceData(index=1, records=batch(b"b"))]
        )
    )
    run.ask(request)


@case(ProduceRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    run.ask(sending(run.name("missing"), (0, batch(b"a"))))
    run.ask(sending(run.topic(), (7, batch(b"a")), (-1, batch(b"a"))))


@case(ProduceRequest, "wrong")
def no_acks_to_a_missing_topic(run: Run) -> None:
    run.ask(sending(run.name("missing"), (0, batch(b"a")), acks=0))


@case(ProduceRequest, "wrong")
def acks_of_two(run: Run) -> None:
    topic = run.topic()
    for acks in (2, -2):
        run.ask(sending(topic, (0, batch(b"a")), acks=acks))


@case(ProduceRequest, "wrong")
def null_records(run: Run) -> None:
    run.ask(sending(run.topic(), (0, None)), may_be_silent=True)


@case(ProduceRequest, "wrong")
def empty_records(run: Run) -> None:
    run.ask(sending(run.topic(), (0, b"")))


@case(ProduceRequest, "wrong")
def old_message_sets(run: Run) -> None:
    topic = run.topic()
    for magic in (0, 1):
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b"))))


@case(ProduceRequest, "wrong", "3+")
def two_batches(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a") + batch(b"b"))))


@case(ProduceRequest, "wrong")
def crc(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a", crc=1))))


@case(ProduceRequest, "wrong", "3+")
def frames_that_lie(run: Run) -> None:
    topic = run.topic()
    whole = batch(b"a", b"b")
    for data in (
        whole[:-3],
        whole[:40],
        whole[:11],
        whole + b"\0\0\0",
        batch(b"a", magic=3),
        batch(b"a", magic=-1),
        batch(b"a", length=10),
    ):
        run.ask(sending(topic, (0, data)))


@case(ProduceRequest, "wrong", "3+")
def counts_that_lie(run: Run) -> None:
    topic = run.topic()
    for fields in (
        {"count": 1},
        {"count": 3},
        {"count": 0},
        {"count": -1},
        {"last_offset_delta": 0},
        {"last_offset_delta": 5},
        {"last_offset_delta": -1},
    ):
        for codec in (0, 1):
            run.ask(sending(topic, (0, batch(b"a", b"b", codec=codec, **fields))))


@case(ProduceRequest, "wrong", "3+")
def records_that_lie_about_their_length(run: Run) -> None:
    topic = run.topic()
    for length in (0, 1, 5, 1000, -1):
        run.ask(sending(topic, (0, Batch(records=[Rec(length=length), Rec()]).encode())))


@case(ProduceRequest, "wrong", "3+")
def compressed_records_that_lie_about_their_length(run: Run) -> None:
    topic = run.topic()
    for codec in (1, 3):
        for length in (0, 1, 5, 1000, -1):
            run.ask(sending(topic, (0, Batch(records=[Rec(length=length), Rec()], codec=codec).encode())))


@case(ProduceRequest, "wrong", "3+")
def fields_that_do_not_fit_their_record(run: Run) -> None:
    topic = run.topic()
    for codec in (0, 1, 3, *((4,) if run.version >= 7 else ())):
        for rec in (
            Rec(value=b"0123456789", value_length=900), Rec(value=b"0123456789", value_length=3), Rec(key_length=900),
            Rec(key_length=2), Rec(value_length=-1), Rec(key=b"", key_length=-5), Rec(value=b"", value_length=-7),
        ):  # fmt: skip
            for records in ([rec], [Rec(), rec, Rec()]):
                run.ask(sending(topic, (0, Batch(records=records, codec=codec).encode())))


@case(ProduceRequest, "wrong", "3+")
def offset_deltas_that_lie(run: Run) -> None:
    topic = run.topic()
    for deltas in ((0, 0), (1, 0), (0, 5), (-1, 0)):
        for codec in (0, 1):
            recs = [Rec(offset_delta=delta) for delta in deltas]
            run.ask(sending(topic, (0, Batch(records=recs, codec=codec, last_offset_delta=1).encode())))


@case(ProduceRequest, "wrong", "3+")
def attributes_that_clients_may_not_set(run: Run) -> None:
    topic = run.topic()
    for attributes in (0x20, 0x30, 0x08, 0x40, 0x80, 6, 7):
        run.ask(sending(topic, (0, batch(b"a", attributes=attributes))))


@case(ProduceRequest, "wrong", "3+")
def transactional_batch_without_a_transaction(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a", attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0))))


@case(ProduceRequest, "wrong", "3-6")
def zstd_before_version_7(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a", codec=4))))


@case(ProduceRequest, "wrong", "3+")
def rubbish_behind_a_codec(run: Run) -> None:
    topic = run.topic()
    for codec in (1, 2, 3, 4):
        if codec == 4 and run.version < 7:
            continue
        run.ask(sending(topic, (0, batch(b"a" * 50, attributes=codec))))


@case(ProduceRequest, "wrong")
def larger_than_the_topic_allows(run: Run) -> None:
    run.ask(sending(run.topic(max_message_bytes="100"), (0, batch(b"a" * 200))))


@case(ProduceRequest, "wrong")
def larger_than_a_segment(run: Run) -> None:
    run.ask(sending(run.topic(segment_bytes="1000"), (0, batch(b"a" * 2000))))


@case(ProduceRequest, "wrong", "3+")
def without_a_key_to_a_compacted_topic(run: Run) -> None:
    topic = run.topic(cleanup_policy="compact")
    for codec in (0, 1):
        recs = [Rec(), Rec(key=None), Rec(key=None)]
        run.ask(sending(topic, (0, Batch(records=recs, codec=codec).encode())))


@case(ProduceRequest, "wrong", "3+")
def timestamps_outside_the_topic_s_limits(run: Run) -> None:
    topic = run.topic(message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    for stamp in (MARCH, 100_000_000_000_000):
        for codec in (0, 1):
            run.ask(sending(topic, (0, batch(b"a", b"b", base_timestamp=stamp, codec=codec))))


@case(ProduceRequest, "wrong")
def fewer_replicas_than_the_topic_wants(run: Run) -> None:
    topic = run.topic(min_insync_replicas="2")
    for acks in (-1, 1):
        run.ask(sending(topic, (0, batch(b"a")), acks=acks, timeout_ms=300))


@case(ProduceRequest, "wrong", "3+")
def to_an_internal_topic(run: Run) -> None:
    run.group()
    answer: Any = run.do(sending("__consumer_offsets", (0, batch(b"a")), acks=1), run.version)
    run.note({"error_code": answer.responses[0].partition_responses[0].error_code})


@case(ProduceRequest, "wrong", "3+")
def transactional_id_without_a_transaction(run: Run) -> None:
    request = sending(run.topic(), (0, batch(b"a", attributes=0x10, producer_id=77, producer_epoch=0, base_sequence=0)))
    request.transactional_id = run.name("tx")
    run.ask(request)


def stored(run: Run, topic: str) -> None:
    """Keep what is in the topic now, record by record."""
    from protocol.records.any_format import iter_any_headers, iter_any_records
    from tests.differential.cases.fetch import fetching

    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    answer = run.do(fetching(FetchTopic(topic=topic, partitions=[wanted])))
    records = bytes(answer.responses[0].partitions[0].records or b"")
    for position, header in iter_any_headers(records):
        stamp = "stamped" if header.is_log_append_time else "of the producer"
        run.note(f"magic {header.magic}, codec {header.compression.name}, time {stamp}")
        for record in iter_any_records(records, position, header, 1 << 20):
            time = "now" if header.is_log_append_time else record.timestamp
            run.note(f"{record.offset} at {time}: {record.key!r} {record.value!r}")


@case(ProduceRequest, "normal", "0-2")
def message_sets(run: Run) -> None:
    for magic in (0, 1):
        topic = run.topic(f"t{magic}")
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b", key=b"k"))))
        run.ask(sending(topic, (0, message(magic, 7, b"c") + message(magic, 7, None, timestamp=MARCH - 5))))
        stored(run, topic)


@case(ProduceRequest, "normal", "0-2")
def compressed_message_sets(run: Run) -> None:
    for magic in (0, 1):
        topic = run.topic(f"t{magic}")
        for codec in (1, 2, 3):
            inner = message_set(magic, b"a" * 50, b"b" * 50, None)
            run.ask(sending(topic, (0, wrapper(magic, codec, inner, 2))))
        stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def inner_offsets_of_all_kinds(run: Run) -> None:
    topic = run.topic()
    for magic in (0, 1):
        for offsets, outer in (
            ((0, 0), 0),
            ((0, 1), 0),
            ((5, 6), 6),
            ((0, 1), 9),
            ((3, 2), 3),
            ((0, 5), 1),
            ((-1, 0), 0),
        ):
            inner = b"".join(message(magic, offset, b"%d" % offset) for offset in offsets)
            run.ask(sending(topic, (0, wrapper(magic, 1, inner, outer))))
    stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def message_sets_to_topics_with_a_codec(run: Run) -> None:
    for codec in ("gzip", "uncompressed", "zstd"):
        topic = run.topic(codec, compression_type=codec)
        for magic in (0, 1):
            run.ask(sending(topic, (0, message_set(magic, b"a" * 50, b"b" * 50))))
            run.ask(sending(topic, (0, wrapper(magic, 2, message_set(magic, b"c" * 50, b"d" * 50), 1))))
        stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def message_sets_to_a_topic_that_stamps(run: Run) -> None:
    topic = run.topic(message_timestamp_type="LogAppendTime")
    for magic in (0, 1):
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b"))))
        run.ask(sending(topic, (0, wrapper(magic, 1, message_set(magic, b"c", b"d"), 1))))
    stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def messages_that_say_they_are_stamped(run: Run) -> None:
    for stamped in ("CreateTime", "LogAppendTime"):
        topic = run.topic(stamped, message_timestamp_type=stamped)
        for stamp in (MARCH, -1):
            run.ask(sending(topic, (0, message(1, 0, b"a", attributes=8, timestamp=stamp))))
            inner = message_set(1, b"a", b"b", timestamp=MARCH - 7)
            run.ask(sending(topic, (0, wrapper(1, 1, inner, 1, attributes=8, timestamp=stamp))))
        if stamped == "CreateTime":
            stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def a_message_set_that_is_cut(run: Run) -> None:
    topic = run.topic()
    for magic in (0, 1):
        whole = message_set(magic, b"a" * 20, b"b" * 20)
        for cut in (1, 30, len(whole) - 18, len(whole) - 10):
            run.ask(sending(topic, (0, whole[:-cut])))
        run.ask(sending(topic, (0, wrapper(magic, 1, whole[:-1], 0))))
    stored(run, topic)


@case(ProduceRequest, "edge", "0-2")
def a_right_header_checksum_in_a_v0_message(run: Run) -> None:
    topic = run.topic()
    for magic in (0, 1):
        right = wrapper(1, 3, message_set(magic, b"a" * 50), 0)
        value = right[right.index(b"\x04\x22\x4d\x18") :]
        run.ask(sending(topic, (0, message(magic, 0, value, attributes=3))))
        wrong = value[:6] + b"\x55" + value[7:]
        run.ask(sending(topic, (0, message(magic, 0, wrong, attributes=3))))


@case(ProduceRequest, "wrong", "0-2")
def message_sets_that_are_wrong(run: Run) -> None:
    topic = run.topic()
    for magic in (0, 1):
        inner = message_set(magic, b"a", b"b")
        other = message_set(1 - magic, b"a")
        for records in (
            message(magic, 0, b"a", crc=1),
            inner + message(magic, 0, b"a", crc=1),
            wrapper(magic, 1, inner, 1) + wrapper(magic, 1, inner, 1),
            inner + wrapper(magic, 1, inner, 1),
            inner + other,
            wrapper(magic, 1, other, 0),
            wrapper(magic, 1, inner + message(magic, 0, b"a", crc=1), 2),
            wrapper(magic, 1, wrapper(magic, 1, inner, 1), 1),
            wrapper(magic, 1, b"", 0),
            message(magic, 0, None, attributes=1),
            message(magic, 0, b"rubbish", attributes=4),
            inner + batch(b"a"),
        ):
            run.ask(sending(topic, (0, records)))
    stored(run, topic)


@case(ProduceRequest, "wrong", "0-2")
def message_sets_larger_than_the_topic_allows(run: Run) -> None:
    topic = run.topic(max_message_bytes="200")
    for magic in (0, 1):
        for records in (
            message(magic, 0, b"a" * 150),
            message(magic, 0, b"a" * 170),
            message_set(magic, b"a" * 100, b"b" * 100),
            wrapper(magic, 1, message_set(magic, b"a" * 1000), 0),
        ):
            run.ask(sending(topic, (0, records)))
    stored(run, topic)


@case(ProduceRequest, "wrong", "0-2")
def message_sets_without_keys_to_a_compacted_topic(run: Run) -> None:
    topic = run.topic(cleanup_policy="compact")
    for magic in (0, 1):
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b"))))
        run.ask(sending(topic, (0, wrapper(magic, 1, message_set(magic, b"a", b"b"), 1))))
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b", key=b"k"))))


@case(ProduceRequest, "wrong", "0-2")
def message_sets_outside_the_topic_s_time_limits(run: Run) -> None:
    topic = run.topic(message_timestamp_before_max_ms="60000")
    for magic in (0, 1):
        run.ask(sending(topic, (0, message_set(magic, b"a", b"b"))))
        run.ask(sending(topic, (0, wrapper(magic, 1, message_set(magic, b"a", b"b"), 1))))


@case(ProduceRequest, "wrong", "0-2")
def two_batches_in_an_old_version(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a") + batch(b"b"))))
    run.ask(sending(run.topic("u"), (0, batch(b"a") + message_set(1, b"b"))))


@case(ProduceRequest, "normal", "0-2")
def zstd_in_an_old_version(run: Run) -> None:
    run.ask(sending(run.topic(), (0, batch(b"a", codec=4))))


@case(ProduceRequest, "edge")
def a_partition_twice(run: Run) -> None:
    topic = run.topic()
    one, two, damaged = batch(b"a"), batch(b"b", b"c"), batch(b"d", crc=1)
    for first, second in ((one, two), (one, damaged), (damaged, one), (one + two, one), (one, one + two)):
        run.ask(sending(topic, (0, first), (0, second)))
    stored(run, topic)


@case(ProduceRequest, "wrong")
def records_that_refuse_the_whole_request(run: Run) -> None:
    topic = run.topic(partitions=3)
    good, fields = batch(b"a"), {"producer_id": 987657, "producer_epoch": 0, "base_sequence": 0, "attributes": 0x10}
    for bad in (batch(b"a", magic=3), batch(b"a", length=10), batch(b"a", **fields), batch(b"a", crc=1)):
        run.ask(sending(topic, (0, good), (1, bad), (2, good)))


@case(ProduceRequest, "wrong")
def what_is_refused_first(run: Run) -> None:
    topic = run.topic()
    run.ask(sending(run.name("missing"), (0, batch(b"a")), acks=2))
    run.ask(sending(topic, (0, b""), acks=2))
    run.ask(sending(topic, (0, batch(b"a") + batch(b"b")), acks=2))
    for records in (b"", batch(b"a") + batch(b"b"), batch(b"a", crc=1)):
        for partition in (0, 999):
            run.ask(sending("__consumer_offsets", (partition, records)))
