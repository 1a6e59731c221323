"""The plan of one transaction for one source partition, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from client.committing import OffsetAndMetadata
from client.reading.positions import FetchedBatches
from protocol.records.batch import iter_headers
from protocol.records.record import Record, encode_batch
from relay.relaying.contents import Contents
from relay.relaying.source import SourcePartition
from relay.relaying.work import SourceWork, Terms, plan
from relay.rules.rule import Partitioner, Rule, RuleKind
from relay.waiting.entries import SOURCE, place_of
from relay.waiting.index import WaitingIndex

NOW_MS = 1_000_000
RULE = Rule("in", RuleKind.DELAY, "out", results="results", dead_letters="dead")
TERMS = Terms("aside", partitions={"out": 2, "dead": 1, "results": 1})


def source_of(rule: Rule = RULE, *, end: int = 0) -> SourcePartition:
    return SourcePartition(("in", 0), rule, WaitingIndex("in", 0), 1, OffsetAndMetadata(0), end)


def feed(source: SourcePartition, records: Sequence[Record]) -> None:
    start = source.read_position.offset
    numbered = [
        Record(start + index, each.timestamp, each.key, each.value, each.headers) for index, each in enumerate(records)
    ]
    buffer = bytes(encode_batch(numbered, base_offset=start))
    batches = list(iter_headers(buffer))
    source.fetched(FetchedBatches("in", 0, start, start + len(records), buffer, batches, 0, start + len(records)))


def record(value: bytes, *headers: tuple[str, bytes], key: bytes | None = b"k", timestamp_ms: int = NOW_MS) -> Record:
    return Record(0, timestamp_ms, key, value, list(headers))


def due(due_ms: int, value: bytes, *headers: tuple[str, bytes]) -> Record:
    return record(value, ("barnabas-deliver-at", b"%d" % due_ms), *headers)


def commit(work: SourceWork) -> SourceWork:
    for offset, each in enumerate(work.copies):
        work.copied(each.record.offset, 100 + offset)
    work.index_records()
    work.committed()
    return work


def sent(work: SourceWork) -> list[tuple[str, bytes | None]]:
    return [(each.topic, each.record.value) for each in work.sends]


def with_all(source: SourcePartition, records: Iterable[Record]) -> Contents:
    contents = Contents()
    for offset, each in enumerate(records):
        contents.add(
            source.key, place_of(SOURCE, offset), Record(offset, each.timestamp, each.key, each.value, each.headers)
        )
    return contents


def test_what_is_due_goes_out_at_once_and_the_rest_waits() -> None:
    source = source_of()
    feed(
        source, [due(NOW_MS + 5, b"later"), due(NOW_MS, b"now"), due(NOW_MS - 9, b"past"), due(NOW_MS + 10**7, b"far")]
    )
    work = commit(plan(source, Contents(), NOW_MS, TERMS))
    assert sent(work) == [("out", b"past"), ("out", b"now")]
    assert all(each.record.timestamp == NOW_MS for each in work.sends)
    assert (source.index.count, work.counts.copied, source.position.offset) == (2, 1, 4)


def test_a_plan_that_is_not_committed_changes_nothing() -> None:
    source = source_of()
    feed(source, [due(NOW_MS, b"now"), due(NOW_MS + 5, b"later")])
    first = plan(source, Contents(), NOW_MS, TERMS)
    first.index_records()
    second = plan(source, Contents(), NOW_MS, TERMS)
    assert sent(first) == sent(second) == [("out", b"now")]
    assert (source.index.count, source.position.offset) == (0, 0)


def test_nothing_is_delivered_before_all_is_read_that_was_there() -> None:
    source = source_of(end=3)
    feed(source, [due(NOW_MS, b"a", ("barnabas-id", b"1")), due(NOW_MS - 1, b"b")])
    work = commit(plan(source, Contents(), NOW_MS, TERMS))
    assert (sent(work), source.index.count) == ([], 2)
    feed(source, [record(b"", ("barnabas-id", b"1"), ("barnabas-cancel", b""))])
    contents = with_all(source, [due(NOW_MS, b"a"), due(NOW_MS - 1, b"b")])
    assert sent(commit(plan(source, contents, NOW_MS, TERMS))) == [("results", b"cancelled"), ("out", b"b")]
    assert source.index.count == 0


def test_an_entry_without_content_holds_what_is_due_behind_it() -> None:
    source = source_of()
    records = [due(NOW_MS + 1, b"a"), due(NOW_MS + 2, b"b"), due(NOW_MS + 3, b"c")]
    feed(source, records)
    commit(plan(source, Contents(), NOW_MS, TERMS))
    contents = with_all(source, records)
    contents.drop(source.key, place_of(SOURCE, 1))
    feed(source, [due(NOW_MS, b"new")])
    work = commit(plan(source, contents, NOW_MS + 9, TERMS))
    assert work.is_starved
    assert sent(work) == [("out", b"a")]
    contents.add(source.key, place_of(SOURCE, 1), None)
    contents.add(source.key, place_of(SOURCE, 3), due(NOW_MS, b"new"))
    work = commit(plan(source, contents, NOW_MS + 9, TERMS))
    assert (sent(work), work.counts.gone) == ([("out", b"new"), ("out", b"c")], 1)


def test_ids_are_cancelled_replaced_and_remembered() -> None:
    source = source_of()
    id_ = ("barnabas-id", b"1")
    feed(source, [due(NOW_MS + 5, b"first", id_), due(NOW_MS, b"second", id_)])
    assert sent(commit(plan(source, Contents(), NOW_MS, TERMS))) == [("results", b"replaced"), ("out", b"second")]
    feed(source, [due(NOW_MS, b"third", id_), record(b"", id_, ("barnabas-cancel", b""))])
    assert sent(commit(plan(source, Contents(), NOW_MS, TERMS))) == [("results", b"too late"), ("results", b"too late")]
    assert source.index.count == 0


def test_a_retry_keeps_its_id_and_comes_again_after_each_attempt() -> None:
    source = source_of(Rule("in", RuleKind.RETRY, "out", delays_ms=(5, 5), dead_letters="dead", results="results"))
    id_ = ("barnabas-id", b"1")
    for attempt in (b"1", b"2"):
        feed(source, [record(b"job", id_, ("barnabas-attempt", attempt))])
        assert sent(commit(plan(source, Contents(), NOW_MS + 5, TERMS))) == [("out", b"job")]
    feed(source, [record(b"job", id_, ("barnabas-attempt", b"3")), record(b"", id_, ("barnabas-cancel", b""))])
    last = commit(plan(source, Contents(), NOW_MS + 5, TERMS))
    assert sent(last) == [("dead", b"job"), ("results", b"too late")]


def test_a_held_source_takes_in_and_delivers_nothing() -> None:
    source = source_of()
    source.is_held = True
    feed(source, [due(NOW_MS, b"a")])
    assert sent(commit(plan(source, Contents(), NOW_MS, TERMS))) == []
    source.is_held, source.refusal = False, "no target"
    work = plan(source, with_all(source, [due(NOW_MS, b"a")]), NOW_MS, TERMS)
    assert sent(work) == [("dead", b"a")]
    source.avoided.add("dead")
    assert sent(plan(source, with_all(source, [due(NOW_MS, b"a")]), NOW_MS, TERMS)) == [("aside", b"a")]


def test_fewer_go_out_while_a_record_is_looked_for_that_is_not_taken() -> None:
    source = source_of()
    records = [due(NOW_MS, b"%d" % each) for each in range(8)]
    feed(source, records)
    source.failed(8)
    assert sent(commit(plan(source, Contents(), NOW_MS, TERMS))) == []  # they wait for their turn
    contents = with_all(source, records)
    assert len(commit(plan(source, contents, NOW_MS, TERMS)).sends) == 4
    source.refused[place_of(SOURCE, 4)] = "too large"
    assert sent(commit(plan(source, contents, NOW_MS, TERMS)))[:2] == [("dead", b"4"), ("out", b"5")]


def test_the_partition_is_that_of_the_key_or_of_the_source() -> None:
    records = [record(b"", key=b"key-%d" % each) for each in range(20)]
    found = {}
    for partitioner in Partitioner:
        source = source_of(Rule("in", RuleKind.DELAY, "out", partitioner=partitioner))
        feed(source, records)
        found[partitioner] = [each.partition for each in plan(source, Contents(), NOW_MS, TERMS).sends]
    assert set(found[Partitioner.SAME]) == {0}
    assert found[Partitioner.MURMUR2] != found[Partitioner.CRC32]
    assert set(found[Partitioner.MURMUR2]) == {0, 1}


def test_a_transaction_needs_the_copies_that_it_makes() -> None:
    source = source_of()
    feed(source, [due(NOW_MS + 120_000, b"a"), due(NOW_MS + 180_000, b"b")])
    work = plan(source, Contents(), NOW_MS, TERMS)
    for at, each in enumerate(work.copies):
        work.copied(each.record.offset, 7 + at)
    assert source.needs.lowest == {}
    assert work.needs.lowest == {1: 7}
