"""The settings of one listener: its own, `listener.name.<listener>.<setting>`, in place of the general ones.

A setting of a SASL mechanism has the mechanism between: `listener.name.<listener>.<mechanism>.<setting>`. Listener and
mechanism are in lower case there.
Rules: pure. Source: Kafka ListenerName, AbstractConfig.valuesWithPrefixOverride, SaslChannelBuilder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from config.errors import ConfigError

if TYPE_CHECKING:
    from config.broker import BrokerSettings


class ListenerValues:
    """The values that apply to a listener, parsed."""

    def __init__(self, settings: BrokerSettings, listener: str) -> None:
        self.listener = listener
        self._settings = settings
        self._prefix = f"listener.name.{listener.lower()}."

    def setting_name(self, name: str, mechanism: str | None = None) -> str:
        """Return the full name of a setting of this listener, or of one of its SASL mechanisms."""
        return self._prefix + ("" if mechanism is None else f"{mechanism.lower()}.") + name

    def value(self, name: str) -> Any:
        """Return the value of the broker setting `name` for this listener. Raises ConfigError."""
        own = self._own(self.setting_name(name), name)
        return self._settings.value(name) if own is None else own

    def of_mechanism(self, name: str, mechanism: str) -> Any:
        """Return the value of `name` for a SASL mechanism of this listener, or None. Raises ConfigError."""
        return self._own(self.setting_name(name, mechanism), name)

    def value_of_mechanism(self, name: str, mechanism: str) -> Any:
        """Return the same, with the listener's or the general value in its place. Raises ConfigError."""
        own = self.of_mechanism(name, mechanism)
        return self.value(name) if own is None else own

    def _own(self, full_name: str, name: str) -> Any:
        text = self._settings.given.get(full_name)
        if text is None:
            return None
        row = self._settings.definitions[name]
        try:
            return row.parse(text)
        except ConfigError as error:
            raise ConfigError(
                str(error).replace(f"configuration {name}", f"configuration {full_name}"), valid=error.valid
            ) from None

    def has_own(self, name: str) -> bool:
        """Return whether `name` is set for this listener only."""
        return self.setting_name(name) in self._settings.given

    def shown_name(self, name: str) -> str:
        """Return the name under which `name` is set, for errors."""
        return self.setting_name(name) if self.has_own(name) else name
