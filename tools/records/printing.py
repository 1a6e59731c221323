"""Prints the records that a reading gives, and commits what it has printed.

Rules: a record that the deserializers do not take ends the printing, unless it is to be skipped: then it is counted and told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.output import Output
from runtime.texts import count_text
from tools.records.format_option import line_text, template_line
from tools.records.line_template import LineTemplate
from tools.records.line_text import Line
from tools.records.print_properties import DESERIALIZERS, line_maker, printing_properties
from tools.records.reading import BATCH
from tools.records.record_view import RecordView, UnreadableHeaders
from tools.records.serialization import STRING, Serialization, decoded, serialization_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from tools.records.new_partitions import NewPartitions
    from tools.records.reading import Reading
    from tools.records.record_filter import RecordFilter


@dataclass(frozen=True, slots=True)
class RecordForm:
    """What bytes of keys and values are, and the line of a record."""

    OPTIONS: ClassVar = ("template", "is_raw", "printed", "key_form", "value_form", "skips_errors")

    line: Line
    key: Serialization
    value: Serialization
    skips_errors: bool

    @classmethod
    def of(
        cls,
        *,
        template: LineTemplate,
        is_raw: bool,
        as_json: bool,
        printed: tuple[str, ...],
        key_form: Serialization,
        value_form: Serialization,
        skips_errors: bool,
    ) -> RecordForm:
        """From options; the properties `printed` are stronger. Raises click.UsageError."""
        texts = line_text(is_raw=is_raw, as_json=as_json)
        if not printed:
            return cls(template_line(template, texts), key_form, value_form, skips_errors)
        properties = printing_properties(printed)
        forms = [serialization_of(properties[name], name) if name in properties else None for name in DESERIALIZERS]
        return cls(line_maker(properties, texts), forms[0] or key_form, forms[1] or value_form, skips_errors)

    def shown(self, record: RecordView) -> RecordView:
        """Return the record with key and value as text. Raises Failure."""
        if self.key is STRING and self.value is STRING:
            return record
        return decoded(record, self.key, self.value)


class Printing:
    """Filters and prints. With `commits`, each record is committed once it is printed."""

    def __init__(
        self,
        consumer: Consumer,
        form: RecordForm,
        wanted: RecordFilter,
        output: Output,
        max_messages: int | None,
        *,
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._form = form
        self._wanted = wanted
        self._output = output
        self._max_messages = max_messages
        self._commits = commits
        self.printed = 0
        self.unreadable = 0
        """Records whose headers are wanted and could not be read."""

    def run(
        self, reading: Reading, timeout_ms: int | None, now_ms: Callable[[], int], added: NewPartitions | None = None
    ) -> None:
        """Print until the end of what was asked; `added` tells of partitions that the topic gets. Raises KafkaException,
        Interrupted."""
        quiet_since_ms = now_ms()
        try:
            while not reading.is_finished and not self._is_full:
                messages = reading.poll(1 if self._commits else BATCH)
                for message in messages:
                    self._take(message)
                if added is not None:
                    reading.add(added.found())
                if messages or reading.left() is None:
                    quiet_since_ms = now_ms()
                    sys.stdout.flush()
                elif timeout_ms is not None and now_ms() - quiet_since_ms >= timeout_ms:
                    return
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted after {count_text(self.printed, 'record')}") from None

    @property
    def _is_full(self) -> bool:
        return self._max_messages is not None and self.printed >= self._max_messages

    def _take(self, message: Any) -> None:
        if self._is_full:
            return
        record = RecordView.of(message)
        if self._is_wanted(record):
            try:
                shown = self._form.shown(record)
            except Failure as failure:
                if not self._form.skips_errors:
                    raise
                Output.note(f"skipped: {failure.message}")
            else:
                self._output.record(shown.as_json, self._form.line(shown))
                self.printed += 1
        if self._commits:
            sys.stdout.flush()
            self._consumer.commit(message=message, asynchronous=False)

    def _is_wanted(self, record: RecordView) -> bool:
        try:
            return self._wanted.takes(record)
        except UnreadableHeaders:
            self.unreadable += 1
            return False
