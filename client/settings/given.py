"""The settings of a client as given: texts by name, whatever names were used for them. Pure.

Rules: an error names a setting as it was given, and no secret. Blanks around a value do not count, but for passwords, as in
Kafka; an empty value is none.
Source: Kafka ConfigDef.parseType.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from client.settings.names import REFUSED, SAME, WEAKER
from client.settings.values import SettingsError

_LONG_MAX = (1 << 63) - 1


class Given:
    """`properties` are names and texts; `prefix` is in front of every name (Spark's options have `kafka.`)."""

    def __init__(self, properties: Mapping[str, str], prefix: str = "") -> None:
        """Raises SettingsError for two texts of one setting, and for a setting that is refused."""
        self._prefix = prefix
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        by_name = {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}
        for name, text in sorted(by_name.items(), key=lambda pair: pair[0] in WEAKER):
            self._add(name, text)

    def _add(self, name: str, text: str) -> None:
        refusal = REFUSED.get(name)
        if refusal is not None and text.strip() and text.strip() not in refusal.accepted:
            raise SettingsError(f"{self._prefix}{name} cannot be used: {refusal.reason}")
        canonical = SAME.get(name, name)
        if self._texts.get(canonical, text) != text:
            if name in WEAKER:
                return
            raise SettingsError(f"{self.shown(canonical)} and {self._prefix}{name} are one setting with two values")
        self._texts[canonical], self._names[canonical] = text, name

    def shown(self, name: str) -> str:
        """Return the name of a setting as it was given, or is to be given."""
        return self._prefix + self._names.get(name, name)

    def has(self, name: str) -> bool:
        return self.text(name) is not None

    def first_of(self, names: Iterable[str]) -> str | None:
        """Return the first of these names that was given, as it was given."""
        return next((self.shown(name) for name in names if self.has(name)), None)

    def text(self, name: str) -> str | None:
        return self._texts.get(name, "").strip() or None

    def secret(self, name: str) -> str | None:
        """Return a text with its blanks."""
        return self._texts.get(name) or None

    def is_empty(self, name: str) -> bool:
        """Whether a setting was given without a value."""
        return name in self._texts and not self.has(name)

    def choice(self, name: str, valid: Iterable[str]) -> str | None:
        """Return which of `valid` a text is, whatever its case. Raises SettingsError."""
        text = self.text(name)
        if text is None:
            return None
        known = {each.lower(): each for each in valid}
        if text.lower() not in known:
            raise SettingsError(f"{self.shown(name)}={text} is not one of {', '.join(known.values())}")
        return known[text.lower()]

    def boolean(self, name: str, *, default: bool) -> bool:
        """Raises SettingsError."""
        return {None: default, "true": True, "false": False}[self.choice(name, ("true", "false"))]

    def number(self, name: str, default: int, least: int = 0, most: int = _LONG_MAX) -> int:
        """Return a whole number. Raises SettingsError."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            limit = f"from {least} up" if most == _LONG_MAX else f"from {least} to {most}"
            raise SettingsError(f"{self.shown(name)}={text} is not a whole number {limit}")
        return int(text)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words between commas, each once."""
        text = self.text(name) or ""
        return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
