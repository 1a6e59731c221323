"""The error of this package: an invalid value of a setting.

Source: Kafka ConfigException; the texts are worded as clients and operators know them from there.
"""

from __future__ import annotations

HIDDEN = "[hidden]"


class ConfigError(Exception):
    """An invalid value. `str(error)` is Kafka's text; `line` also has the valid range."""

    def __init__(self, message: str, *, valid: str = "") -> None:
        super().__init__(message)
        self.valid = valid

    @property
    def line(self) -> str:
        """Return one line for an operator: setting, value and valid range."""
        text = str(self).rstrip(".")
        return f"{text} (valid: {self.valid})" if self.valid else text


def invalid_value(name: str, value: object, reason: str, *, valid: str = "") -> ConfigError:
    """Return the error for an invalid `value` of setting `name`."""
    shown = "null" if value is None else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}", valid=valid)
