"""Which records are wanted: by key, headers and value. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import click

from tools.record_view import RecordView


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """All that is given must hold."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    value_part: bytes | None = None

    @classmethod
    def of(cls, key: str | None, headers: Iterable[str], value_contains: str | None) -> RecordFilter:
        """From the texts of options. Raises click.BadParameter."""
        pairs = []
        for text in headers:
            name, separator, value = text.partition("=")
            if not separator:
                raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--header")
            pairs.append((name, value.encode()))
        return cls(
            None if key is None else key.encode(),
            tuple(pairs),
            None if value_contains is None else value_contains.encode(),
        )

    def takes(self, record: RecordView) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        if self.value_part is not None and self.value_part not in (record.value or b""):
            return False
        return all(header in record.headers for header in self.headers)
