"""`barnabas records`: delete records before an offset.

Source: kafka-delete-records.sh; KIP-107.
"""

from __future__ import annotations

import click

from client.admin.replicas import delete_records as deletion
from protocol.errors import KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import CHANGE_TIMEOUT_MS, Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import told
from tools.group_lag import offsets_of, offsets_since
from tools.json_files import TO_THE_END, read_offsets
from tools.names_given import one_name
from tools.placement import current_replicas

command = Commands("records", help="Records of a topic.")


@command.command("delete")
@one_name("topic", is_required=False)
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="delete only in these partitions [all]")
@click.option("--before-offset", type=parsing.OFFSET, help="what is before this offset")
@click.option("--before-time", metavar="TIME", help="what is older: 2026-01-31T12:00, or 7d for a week ago")
@click.option("--offset-json-file", "path", metavar="FILE", help="partitions and offsets, as of kafka-delete-records.sh, "
              "instead of TOPIC: what is before each offset; -1 is everything")  # fmt: skip
@click.option("--all", "is_all", is_flag=True, help="delete all records that are there now")
@execute_option("delete the records")
@cluster_command
def delete_records(
    cluster: Cluster,
    output: Output,
    *,
    topic: str | None,
    partitions: str | None,
    before_offset: int | None,
    before_time: str | None,
    path: str | None,
    is_all: bool,
    execute: bool,
) -> None:
    """Delete records of TOPIC from its start. A dry run, unless --execute is given."""
    if sum((before_offset is not None, before_time is not None, is_all, path is not None)) != 1:
        raise click.UsageError("say once what: --before-offset, --before-time, --all or --offset-json-file")
    if (topic is None) != (path is not None) or (path is not None and partitions is not None):
        raise click.UsageError("name a TOPIC; or partitions of topics in the file of --offset-json-file")
    given = read_offsets(path) if path is not None else {}
    cluster.run(current_replicas(given))  # says which partition is missing
    keys = sorted(given) or partition_keys(cluster, str(topic), partitions)
    first, end = cluster.run(offsets_of(keys, EARLIEST)), cluster.run(offsets_of(keys, LATEST))
    if before_time is not None:
        since = cluster.run(offsets_since(keys, parsing.time_ms(before_time, "--before-time", cluster.clock.wall_ms())))
        targets = {key: end[key] if since[key] is None else since[key] for key in keys}
    else:
        wanted = given or dict.fromkeys(keys, TO_THE_END if before_offset is None else before_offset)
        targets = {key: end[key] if wanted[key] == TO_THE_END else wanted[key] for key in keys}
    unknown = [key for key in keys if targets[key] is None or first[key] is None]
    if unknown:
        raise Failure(
            f"partition {unknown[0][0]}-{unknown[0][1]} does not answer; `barnabas cluster health` tells more"
        )
    beyond = [key for key in keys if (targets[key] or 0) > (end[key] or 0)]
    if beyond:
        topic, index = beyond[0]
        raise Failure(f"partition {topic}-{index} ends at {end[beyond[0]]}: it has no offset {targets[beyond[0]]}")
    rows = [
        {"topic": key[0], "partition": key[1], "first_offset": first[key], "new_first_offset": targets[key]}
        for key in keys
    ]
    if execute:
        before = {key: TO_THE_END if is_all else targets[key] or 0 for key in keys}
        for (name, index), result in cluster.run(deletion(before, CHANGE_TIMEOUT_MS), CHANGE_TIMEOUT_MS).items():
            if isinstance(result, KafkaError):
                raise Failure(f"partition {name}-{index}: {told(result)}")
    output.table(rows, ("topic", "partition", "first_offset", "new_first_offset"))
    if not execute:
        Output.note("nothing was deleted: --execute deletes what is before these offsets")
