"""`barnabas dump-log`: prints and verifies the files of a log.

Rules: parsing and printing only, `storage.offline` reads; no broker is started, and one may be running on the same files. Exit
codes: 0; 1 when something is wrong with the files; 2 for invalid arguments.
Source: Kafka DumpLogSegments, whose options these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from broker.start_options import VERSION
from runtime.clock import SystemClock
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.failure import InvalidUse
from runtime.command_line.output import print_problem, print_result, results_have_their_own_place
from runtime.command_line.progress import Progress
from runtime.disk.os_filesystem import OsFileSystem
from runtime.texts import count_text, size_text
from storage.offline.dump import Dump, DumpOptions
from storage.offline.dump_text import (
    Decoder,
    class_texts,
    current_decoder,
    offsets_texts,
    share_texts,
    transaction_texts,
)

Function = Callable[..., Any]
DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"


def _decoder_class(kind: str) -> Callable[[Function], Function]:
    return click.option(
        f"--{kind}-decoder-class", is_flag=False, flag_value=DEFAULT_DECODER, metavar="[CLASS]",
        help=f"what the {kind}s are: Apache Kafka's StringDecoder (the default), IntegerDecoder or LongDecoder",
    )  # fmt: skip


@click.command("dump-log")
@click.option("--files", required=True, multiple=True, metavar="FILE,...",
              help="files, or folders: a partition's, or a whole log directory; may be repeated")  # fmt: skip
@click.option("--deep-iteration", is_flag=True, help="the records of each batch, too")
@click.option("--print-data-log", is_flag=True, help="also keys and values (implies --deep-iteration)")
@click.option("--verify-index-only", is_flag=True, help="compare indexes with logs, print no entries")
@click.option("--index-sanity-check", is_flag=True, help="only what a starting broker asks before it trusts an index")
@click.option("--max-bytes", type=click.IntRange(0), metavar="BYTES", help="read each .log no further than this")
@click.option("--max-message-size", type=click.IntRange(1), hidden=True, help="Kafka's, and not needed")
@click.option("--skip-record-metadata", is_flag=True, help="of records, keys and values alone")
# Of several decoders the first in this order is used.
@click.option("--offsets-decoder", is_flag=True, help="the log is of __consumer_offsets")
@click.option("--transaction-log-decoder", is_flag=True, help="the log is of __transaction_state")
@click.option("--share-group-state-decoder", is_flag=True, help="the log is of __share_group_state")
@click.option("--cluster-metadata-decoder", is_flag=True, hidden=True, help="Kafka's, and refused")
@click.option("--remote-log-metadata-decoder", is_flag=True, hidden=True, help="Kafka's, and refused")
@_decoder_class("key")
@_decoder_class("value")
@click.version_option(VERSION, prog_name="barnabas", message="%(prog)s %(version)s")
def command(files: tuple[str, ...], deep_iteration: bool, print_data_log: bool, **options: Any) -> int:
    """Print and verify the files of a log.

    Prints segments, indexes, snapshots and checkpoints, and says what is wrong with them.
    """
    paths = [path.strip() for text in files for path in text.split(",") if path.strip()]
    if not paths:
        raise InvalidUse("--files names no file")
    decoder, notes = _decoder(options)
    prints_data = (
        print_data_log
        or options["offsets_decoder"]
        or options["transaction_log_decoder"]
        or options["share_group_state_decoder"]
        or options["key_decoder_class"] is not None
        or options["value_decoder_class"] is not None
    )
    # Where the dump itself goes to the same place, it shows how far it is.
    dumping = _DumpProgress(is_shown=results_have_their_own_place())
    dumped = Dump(
        OsFileSystem(),
        DumpOptions(
            deep_iteration=deep_iteration or prints_data,
            print_data_log=prints_data,
            verify_index_only=options["verify_index_only"],
            index_sanity_check=options["index_sanity_check"],
            max_bytes=options["max_bytes"],
            skip_record_metadata=options["skip_record_metadata"],
            decoder=decoder,
            log_notes=notes,
        ),
        print_result,
        print_problem,
        dumping.show,
    )
    for path in paths:
        dumped.path(path)
    return EXIT_FAILED if dumped.finish() else 0


class _DumpProgress:
    """Adds up what was dumped of each file."""

    def __init__(self, *, is_shown: bool) -> None:
        self._progress = Progress("read", None, SystemClock(), size_text) if is_shown else None
        self._files = self._bytes_of_files = self._position = 0

    def show(self, _path: str, position: int) -> None:
        if not position:
            self._files += 1
            self._bytes_of_files += self._position
        self._position = position
        if self._progress is not None:
            self._progress.show(self._bytes_of_files + position, count_text(self._files, "file"))


def _decoder(options: Mapping[str, Any]) -> tuple[Decoder, tuple[str, ...]]:
    """Return (the decoder that the options select, warnings to print). Raises InvalidUse."""
    if options["offsets_decoder"]:
        return offsets_texts, ()
    if options["transaction_log_decoder"]:
        return transaction_texts, ()
    if options["cluster_metadata_decoder"]:
        raise InvalidUse("--cluster-metadata-decoder is not supported: this broker keeps no KRaft metadata log")
    if options["remote_log_metadata_decoder"]:
        raise InvalidUse("--remote-log-metadata-decoder is not supported: this broker keeps no remote segments")
    if options["share_group_state_decoder"]:
        return share_texts, ()
    names, notes = [], []
    for kind, given in (("value", options["value_decoder_class"]), ("key", options["key_decoder_class"])):
        name = current_decoder(given or DEFAULT_DECODER)
        if name is None:
            raise InvalidUse(
                f"--{kind}-decoder-class {given} is not supported: this command runs no Java; there are "
                "org.apache.kafka.tools.api.StringDecoder, IntegerDecoder and LongDecoder"
            )
        if given and given != name:
            notes.append(f"{given} is deprecated. Please use {name} instead")
        names.append(name)
    return class_texts(key=names[1], value=names[0]), tuple(notes)
