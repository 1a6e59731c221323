"""The error of this package: an invalid value of a setting.

Source: Kafka ConfigException; the texts are worded as clients and operators know them from there.
"""

from __future__ import annotations

from config.java_values import java_double_text

HIDDEN = "[hidden]"


class ConfigError(Exception):
    """An invalid value. `str(error)` is Kafka's text; `line` also has the valid range.

    `is_requirement`: Kafka's check is Scala's `require`, whose error begins with other words.
    """

    def __init__(self, message: str, *, valid: str = "", is_requirement: bool = False) -> None:
        super().__init__(message)
        self.valid = valid
        self.is_requirement = is_requirement

    @property
    def client_text(self) -> str:
        """Return the text of the response to a client."""
        return f"requirement failed: {self}" if self.is_requirement else str(self)

    @property
    def line(self) -> str:
        """Return one line for an operator: setting, value and valid range."""
        text = str(self).rstrip(".")
        return f"{text} (valid: {self.valid})" if self.valid else text


def invalid_value(name: str, value: object, reason: str, *, valid: str = "") -> ConfigError:
    """Return the error for an invalid `value` of setting `name`."""
    shown = "null" if value is None else java_double_text(value) if isinstance(value, float) else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}", valid=valid)
