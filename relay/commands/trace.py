"""`barnabas trace`: where a message is, what became of its transaction, who has read past it, and which copies there are.

Rules: parsing and printing; `tools.trace` looks. A key is looked for in the partitions that the usual partitioners give it, and
in those where the relay puts copies of what was found there; `--everywhere` looks in all. The exit code is 0 only if everything
that was asked for was looked through.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from client.admin import topics as topic_steps
from client.letters.headers import ID
from protocol.errors import KafkaError
from protocol.messages.metadata import MetadataResponseTopic
from protocol.records.any_format import iter_any_records
from protocol.records.batch import BatchHeader
from relay.commands.loop import NewClient, on_loop
from relay.commands.relay_option import relay_option
from relay.inspection.reading import RelayInspection
from relay.inspection.states import states_of
from relay.names import RelayNames, log_partition
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from runtime.command_line.output import Output
from runtime.randomness import system_randomness
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.cluster_access import ClusterAccess
from tools.failures import told
from tools.group_lag import Key
from tools.names_given import some_names
from tools.placement import described
from tools.records.record_filter import RecordFilter
from tools.records.serialization import Serialization, key_bytes, serialization_options
from tools.trace.fates import decide_fates, transactional_ids
from tools.trace.mirrors import PAIRS_TOPIC, MirrorPairs, mirrored_names
from tools.trace.readers import positions_in
from tools.trace.reading import ranges_of
from tools.trace.search import TraceSearch, all_partitions, follow, partitions_of_key, read_all, read_places
from tools.trace.stored import MAX_DECOMPRESSED_BYTES, Fate, Place, StoredRecord
from tools.trace.tree import Findings, RelayState, document, lines, trees


@click.command("trace")
@some_names("topic", is_required=False)
@click.option("--key", help="records with this key")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="with this header; may be repeated")
@click.option("--id", "message_id", metavar="ID", help=f"with this id: the same as --header {ID}=ID")
@click.option("--everywhere", is_flag=True, help="look for a key in all partitions, and not only where it belongs")
@click.option("--from-time", metavar="TIME", help="timestamp since: 2026-01-31T12:00, or 1h for an hour ago")
@click.option("--max-messages", type=click.IntRange(1), default=1_000, metavar="N", help="end after N hits [1000]")
@click.option("--max-duration", default="10m", metavar="DURATION", help="end after so long [10m]")
@relay_option
@click.option("--mirror-server", metavar="HOST:PORT", help="the cluster into which `barnabas pipeline mirror` copies")
@click.option("--mirror-config", metavar="FILE", help="properties of a client of that cluster")
@serialization_options("deserializer")
@cluster_command
def command(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    key: str | None,
    key_form: Serialization,
    value_form: Serialization,
    headers: tuple[str, ...],
    message_id: str | None,
    everywhere: bool,
    from_time: str | None,
    max_messages: int,
    max_duration: str,
    names: RelayNames,
    mirror_server: str | None,
    mirror_config: str | None,
) -> None:
    """Tell where a message is stored, in TOPICS or in all: partition, offset, time, producer, transaction and what became of
    it; which groups have read past it; and which copies relay, retries, dead letters and mirrors have made of it."""
    del value_form
    now_ms = cluster.clock.wall_ms()
    key_data = key_bytes(key, key_form)
    if message_id is not None:
        headers += (f"{ID}={message_id}",)
    wanted = RecordFilter.of(key_data, headers, None)
    if wanted == RecordFilter():
        raise click.UsageError("say what to look for: --key, --header or --id")
    since_ms = None if from_time is None else parsing.time_ms(from_time, "--from-time", now_ms)
    wanted = RecordFilter(wanted.key, wanted.headers, since_ms=since_ms)
    until_ms = cluster.clock.monotonic_ms() + parsing.duration_ms(max_duration, "--max-duration")
    there = [each for each in cluster.run(described(topics)) if topics or not each.is_internal]
    search = TraceSearch(cluster, wanted, max_messages, until_ms, has_names=bool(topics))
    _look(search, there, key_data, names, everywhere=everywhere)
    records = search.found
    follow(cluster, records)
    cluster.run(decide_fates(records.values()))
    found = trees(records.values(), _known(cluster, records, names, mirror_server, mirror_config))
    if output.as_json:
        output.document({"messages": [document(each) for each in found], "problems": search.problems})
    else:
        for line in lines(found):
            output.line({}, line)
    _report(search, records)


def _look(
    search: TraceSearch,
    topics: list[MetadataResponseTopic],
    key: bytes | None,
    names: RelayNames,
    *,
    everywhere: bool,
) -> None:
    """Look where a message and its copies may be."""
    if key is None or everywhere:
        search.look(all_partitions(topics))
        return
    search.look(partitions_of_key(topics, key))
    counts = {str(topic.name): len(topic.partitions) for topic in topics}
    buckets = [name for name in names.buckets if name in counts]
    followed: set[Key] = set()
    while new := {each.key_of_partition for each in search.found.values()} - followed:
        followed |= new
        search.look(_partitions_of_copies(sorted(new), counts, buckets))


def _partitions_of_copies(of: Iterable[Key], counts: dict[str, int], buckets: list[str]) -> list[Key]:
    """Return where copies of records of partitions may be beside the partitions of their keys: under the same number, and in
    the topics in which the relay keeps what is due later."""
    found: list[Key] = []
    for topic, partition in of:
        found += [(each, partition) for each, count in counts.items() if partition < count]
        found += [(each, log_partition((topic, partition), counts[each])) for each in buckets]
    return found


def _known(
    cluster: Cluster,
    records: dict[Place, StoredRecord],
    names: RelayNames,
    mirror_server: str | None,
    mirror_config: str | None,
) -> Findings:
    """Return what is known of records beside what is stored. Raises KafkaError, SettingsError, Unreachable."""
    if not records:
        return Findings()
    fates = [(each.producer_id, each.fate) for each in records.values()]
    producers = {producer for producer, fate in fates if producer is not None and fate is not Fate.NONE}
    return Findings(
        cluster.run(positions_in({each.key_of_partition for each in records.values()})),
        cluster.run(transactional_ids(producers)),
        _relay_states(cluster, names, records),
        _originals(cluster, records),
        _mirrored(cluster, records, mirror_server, mirror_config),
    )


def _relay_states(cluster: Cluster, names: RelayNames, records: dict[Place, StoredRecord]) -> dict[Place, RelayState]:
    """Return what the relay says of records that wait where they are, or that it has copied to wait."""
    there = cluster.run(topic_steps.all_topics())
    if names.log not in there or names.rules not in there:
        return {}
    randomness = system_randomness()

    async def work(new_client: NewClient) -> dict[Place, RelayState]:
        inspection = RelayInspection(new_client(), randomness, names)
        await inspection.begin()
        return await states_of(inspection, names, records)

    try:
        return on_loop(cluster, randomness, work)
    except KafkaError as error:
        Output.note(f"the relay {names.name} cannot be looked at: {told(error)}")
        return {}


def _originals(cluster: Cluster, records: dict[Place, StoredRecord]) -> dict[Place, Place]:
    """Return which records of another cluster these are mirrors of. Pairs have no prefix: where several topics may be the
    mirror of one, none is told to be."""
    pairs = MirrorPairs(targets=records)
    names = _read_pairs(cluster, pairs)
    return {
        place: original for place, original in pairs.originals.items() if len(mirrored_names(original[0], names)) == 1
    }


def _mirrored(
    cluster: Cluster, records: dict[Place, StoredRecord], server: str | None, config: str | None
) -> dict[Place, Place]:
    """Return where the mirrors of records are in another cluster. Raises KafkaError, SettingsError, Unreachable."""
    if server is None and config is None:
        return {}
    other = Cluster(ClusterAccess.read(config, None, server), cluster.clock)
    try:
        pairs = MirrorPairs(sources=records)
        names = _read_pairs(other, pairs)
        possible = {
            (name, place[1], offset): place
            for place, offset in pairs.copies.items()
            for name in mirrored_names(place[0], names)
        }
        there = read_places(other, possible)
    finally:
        other.close()
    found: dict[Place, Place] = {}
    for copy, place in possible.items():
        if copy in there and there[copy].content == records[place].content:
            found.setdefault(place, copy)
    return found


def _read_pairs(cluster: Cluster, pairs: MirrorPairs) -> list[str]:
    """Read the pairs of offsets that a cluster has; return the names of its topics."""
    topics = cluster.run(described())
    ranges, _ = cluster.run(ranges_of(all_partitions(each for each in topics if each.name == PAIRS_TOPIC)))

    def take(_key: Key, buffer: bytes, batches: list[tuple[int, BatchHeader]]) -> None:
        for position, header in batches:
            if not header.is_control:
                for record in iter_any_records(buffer, position, header, MAX_DECOMPRESSED_BYTES):
                    pairs.add(record.value)

    for note in read_all(cluster, ranges, take):
        Output.note(note)
    return [str(each.name) for each in topics]


def _report(search: TraceSearch, records: dict[Place, StoredRecord]) -> None:
    """Say how far it has looked. Raises Failure when that is not everything."""
    looked = f"{count_text(search.looked, 'record')} of {count_text(len(search.searched), 'partition')}"
    followed = sum(each.is_followed for each in records.values())
    more = f", and {followed} of which those are copies" if followed else ""
    Output.note(f"{count_text(len(records) - followed, 'hit')} in {looked}{more}")
    if search.closed:
        Output.note(f"not read, for want of the right or since they were deleted: {', '.join(sorted(search.closed))}")
    if search.problems:
        raise Failure("the trace is incomplete: " + "; ".join(search.problems))
