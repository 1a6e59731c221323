"""Login configurations in JAAS form: `module flag option="value" ...;`. Pure.

Rules: quoted values have Java's escapes; `//` and `/* */` begin comments, and so does a single `/` outside quotes, as in
Kafka. Every error names the setting, never a value: values are secrets.
Source: Kafka JaasConfig, JaasContext; java.io.StreamTokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FLAGS = ("required", "requisite", "sufficient", "optional")
_QUOTES = "\"'"
_ESCAPES = {"a": "\7", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = "01234567"


@dataclass(frozen=True, slots=True)
class LoginModule:
    """`name` is the Java class; `options` have secrets among their values."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def parse_login_modules(text: str) -> list[LoginModule]:
    """Return the login modules of a JAAS configuration. Raises ValueError, without any part of `text`."""
    modules = []
    tokens = _tokens(text)
    for kind, name in tokens:
        if kind != _WORD:
            raise ValueError("a login module does not begin with the name of its class")
        kind, flag = next(tokens, (_END, ""))
        if kind == _END:
            raise ValueError("Login module control flag not specified in JAAS config")
        if kind != _WORD or flag.lower() not in FLAGS:
            raise ValueError(f"Invalid login module control flag in JAAS config: one of {', '.join(FLAGS)} is needed")
        modules.append(LoginModule(name, _options(tokens)))
    if not modules:
        raise ValueError("Login module not specified in JAAS config")
    return modules


_WORD, _SIGN, _END = range(3)
_Token = tuple[int, str]


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for kind, name in tokens:
        if kind == _SIGN:
            if name == ";":
                return options
            raise ValueError("a value without an option's name in JAAS config")
        if next(tokens, None) != (_SIGN, "="):
            raise ValueError("Value not specified for an option in JAAS config")
        kind, value = next(tokens, (_END, ""))
        if kind != _WORD:
            raise ValueError("Value not specified for an option in JAAS config")
        options[name] = value
    raise ValueError("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        character = text[position]
        if character <= " ":
            position += 1
        elif character == "/":
            position = _after_comment(text, position)
        elif character in ";=":
            yield _SIGN, character
            position += 1
        elif character in _QUOTES:
            value, position = _quoted(text, position)
            yield _WORD, value
        else:
            end = position
            while end < len(text) and text[end] > " " and text[end] not in ";=/\"'":
                end += 1
            yield _WORD, text[position:end]
            position = end


def _after_comment(text: str, position: int) -> int:
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    end = position
    while end < len(text) and text[end] not in "\r\n":
        end += 1
    return end


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Return the value that begins with the quote at `position`, and the position behind it. It ends with its line at the
    latest, as in Java."""
    quote, position = text[position], position + 1
    parts: list[str] = []
    while position < len(text) and text[position] not in "\r\n":
        character = text[position]
        position += 1
        if character == quote:
            break
        if character == "\\" and position < len(text):
            character, position = _escaped(text, position)
        parts.append(character)
    return "".join(parts), position


def _escaped(text: str, position: int) -> tuple[str, int]:
    if text[position] not in _OCTAL:
        return _ESCAPES.get(text[position], text[position]), position + 1
    digits_max = 3 if text[position] <= "3" else 2
    end = position
    while end < len(text) and end - position < digits_max and text[end] in _OCTAL:
        end += 1
    return chr(int(text[position:end], 8)), end
