"""Parsing, formatting and tables."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.definition import INT, PASSWORD, STRING, Password, SettingTable, Type, format_value, parse_text, setting
from config.errors import ConfigError
from config.layers import Throttles
from config.topic import LogConfig
from config.validators import Range, at_least


class Sample(SettingTable):
    some_number: int = setting("some.number", INT, 7, at_least(3), doc="A number.")
    some_secret: Password | None = setting("some.secret", PASSWORD, None, doc="A secret.")
    some_text: str = setting("some.text", STRING, "x", doc="A text.")


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.BOOLEAN, "False", False),
        (Type.INT, " +5 ", 5),
        (Type.INT, "\x01\t5\x1f\n", 5),
        (Type.INT, "٣٠", 30),
        (Type.DOUBLE, "0x1p-1", 0.5),
        (Type.DOUBLE, "-0X.8P9999d", -1.7976931348623157e308),
        (Type.STRING, "\u00a0a", "\u00a0a"),
        (Type.LIST, "a\u00a0,b", ("a\u00a0", "b")),
        (Type.INT, "-2147483648", -(2**31)),
        (Type.LONG, "9223372036854775807", 2**63 - 1),
        (Type.LONG, "-" + "0" * 5_000 + "7", -7),
        (Type.SHORT, "-1", -1),
        (Type.DOUBLE, "1e3", 1000.0),
        (Type.DOUBLE, ".5d", 0.5),
        (Type.DOUBLE, "-1e999", -1.7976931348623157e308),
        (Type.STRING, "  a b ", "a b"),
        (Type.CLASS, "org.example.Thing", "org.example.Thing"),
        (Type.LIST, " a , b,c ", ("a", "b", "c")),
        (Type.LIST, "  ", ()),
        (Type.LIST, "a,,b,", ("a", "", "b", "")),
        (Type.PASSWORD, " s3cret ", Password("s3cret")),
    ],
)
def test_parses_as_kafka_does(type_: Type, text: str, value: object) -> None:
    assert parse_text("name", text, type_) == value


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (Type.BOOLEAN, "yes", "Expected value to be either true or false"),
        (Type.INT, "2147483648", "Not a number of type INT"),
        (Type.INT, "1_000", "Not a number of type INT"),
        (Type.INT, "1.0", "Not a number of type INT"),
        (Type.INT, "𝟛", "Not a number of type INT"),
        (Type.INT, "\u00a03", "Not a number of type INT"),
        (Type.LONG, "--5", "Not a number of type LONG"),
        (Type.DOUBLE, "0x1", "Not a number of type DOUBLE"),
        (Type.DOUBLE, "NaN", "Not a number of type DOUBLE"),
        (Type.BOOLEAN, "true\u00a0", "Expected value to be either true or false"),
        (Type.SHORT, "40000", "Not a number of type SHORT"),
        (Type.LONG, "", "Not a number of type LONG"),
        (Type.LONG, "1" * 5_000, "Not a number of type LONG"),
        (Type.DOUBLE, "half", "Not a number of type DOUBLE"),
    ],
)
def test_refuses_as_kafka_does(type_: Type, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text("name", text, type_)
    assert str(caught.value) == f"Invalid value {text} for configuration name: {reason}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.05, "0.05"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (None, None),
        (12, "12"),
    ],
)
def test_formats_as_kafka_does(value: object, text: str | None) -> None:
    assert format_value(value) == text


def test_a_table_holds_given_values_and_defaults() -> None:
    table = Sample({"some.number": "9", "unknown": "z"})
    assert (table.some_number, table.some_secret, table.some_text) == (9, None, "x")
    assert table.value("some.number") == 9
    assert table.given == {"some.number": "9", "unknown": "z"}


def test_a_table_does_not_change() -> None:
    with pytest.raises(AttributeError, match="do not change"):
        Sample({}).some_number = 3


def test_an_error_names_setting_value_and_valid_range() -> None:
    with pytest.raises(ConfigError) as caught:
        Sample({"some.number": "2"})
    assert caught.value.line == (
        "Invalid value 2 for configuration some.number: Value must be at least 3 (valid: [3,...])"
    )


def test_secrets_and_unknown_values_are_never_shown() -> None:
    table = Sample({"some.secret": "hunter2", "some.secrte": "hunter2", "some.text": "shown"})
    assert "hunter2" not in repr(table) + str(table) + repr(table.some_secret) + str(table.some_secret)
    assert "some.text=shown" in repr(table)
    assert table.some_secret is not None
    assert table.some_secret.value == "hunter2"


def test_an_attribute_must_be_its_wire_name() -> None:
    with pytest.raises((AssertionError, RuntimeError)):

        class Wrong(SettingTable):
            other: int = setting("some.number", INT, 1, doc="Misnamed.")


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("three", "[1,...]"),
        ("", "[1,...]"),
        ("1.5", "[1,...]"),
        ("0", "[1,...]"),
        ("2147483648", "[1,...,2147483647]"),
        ("-99999999999", "[1,...,2147483647]"),
    ],
)
def test_what_is_no_number_is_told_the_range_of_its_setting(text: str, valid: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.from_sources({"num.partitions": text}, {}, {})
    assert caught.value.line.endswith(f"(valid: {valid})")


@pytest.mark.parametrize("table", [BrokerSettings, LogConfig, Throttles])
def test_every_number_with_a_range_tells_it(table: type[SettingTable]) -> None:
    told = 0
    for row in table.definitions.values():
        if isinstance(row.valid, Range):
            with pytest.raises(ConfigError) as caught:
                row.parse("three")
            assert caught.value.valid == row.valid_text
            told += 1
            if row.type is not Type.DOUBLE:
                with pytest.raises(ConfigError) as caught:
                    row.parse("9" * 400)
                assert caught.value.valid.partition(" or ")[0].rpartition(",")[2].rstrip("]").isdigit()
    assert told > 0


def test_a_number_without_a_range_tells_that_of_its_type() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.definitions["request.timeout.ms"].parse("soon")
    assert caught.value.valid == "[-2147483648,...,2147483647]"


@pytest.mark.parametrize("name", ["broker.id", "node.id", "log.retention.ms", "log.retention.hours", "log.roll.ms"])
def test_a_range_that_is_checked_together_with_others_is_told_too(name: str) -> None:
    row = BrokerSettings.definitions[name]
    with pytest.raises(ConfigError) as caught:
        row.parse("three")
    assert caught.value.valid == row.checked != ""
