"""Which dead letters a command is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from client.letters.headers import Letter


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """A dead letter is meant if it fulfils all that is given. Texts are looked for without regard to case; times are of the
    dead letter's own timestamp, in ms since the epoch."""

    reason: str | None = None
    """A part of the reason."""
    exception: str | None = None
    """A part of the class of the exception."""
    source_topic: str | None = None
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Before this."""
    from_offset: int | None = None
    until_offset: int | None = None

    def takes(self, letter: Letter, offset: int, timestamp_ms: int) -> bool:
        return (
            _holds(letter.reason, self.reason)
            and _holds(letter.exception, self.exception)
            and self.source_topic in (None, letter.source_topic)
            and self.group in (None, letter.group)
            and (self.since_ms is None or timestamp_ms >= self.since_ms)
            and (self.until_ms is None or timestamp_ms < self.until_ms)
            and (self.from_offset is None or offset >= self.from_offset)
            and (self.until_offset is None or offset < self.until_offset)
        )


def _holds(text: str | None, part: str | None) -> bool:
    return part is None or (text is not None and part.casefold() in text.casefold())
