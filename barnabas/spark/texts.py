"""How times, counts and foreign text are shown to people, for the jobs: they load no package of the server by its name."""

from __future__ import annotations

from runtime.texts import bar, count_text, time_text, visible

__all__ = ["bar", "count_text", "time_text", "visible"]
