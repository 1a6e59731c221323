"""The one error of this package: a setting's value that cannot be.

Source: Kafka ConfigException; the texts are worded as clients and operators know them from there.
"""

from __future__ import annotations

HIDDEN = "[hidden]"


class ConfigError(Exception):
    """`str(error)` is the text Kafka answers; `line` also names what would have been valid."""

    def __init__(self, message: str, *, valid: str = "") -> None:
        super().__init__(message)
        self.valid = valid

    @property
    def line(self) -> str:
        """One line for an operator: setting, value and valid range."""
        text = str(self).rstrip(".")
        return f"{text} (valid: {self.valid})" if self.valid else text


def invalid_value(name: str, value: object, reason: str, *, valid: str = "") -> ConfigError:
    """Setting `name` cannot have `value`."""
    shown = "null" if value is None else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}", valid=valid)
