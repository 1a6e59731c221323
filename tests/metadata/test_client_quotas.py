"""Entities of quotas and their nodes; the texts of values as Java writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.client_quotas import (
    CLIENT_KINDS,
    DEFAULT,
    QuotaEntity,
    QuotaKind,
    quota_kind,
    quota_text,
    quotas_in,
    sanitized,
)

NAMES = st.one_of(st.just(DEFAULT), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (QuotaEntity("alice"), "users/alice"),
        (QuotaEntity(DEFAULT), "users/<default>"),
        (QuotaEntity("<default>"), "users/%3Cdefault%3E"),
        (QuotaEntity("a/b", "c d"), "users/a%2Fb/clients/c%20d"),
        (QuotaEntity(None, "app"), "clients/app"),
        (QuotaEntity(None, DEFAULT), "clients/<default>"),
        (QuotaEntity(DEFAULT, DEFAULT), "users/<default>/clients/<default>"),
        (QuotaEntity(address="10.0.0.1"), "ips/10.0.0.1"),
        (QuotaEntity(address=DEFAULT), "ips/<default>"),
    ],
)
def test_paths(entity: QuotaEntity, path: str) -> None:
    assert entity.path == path
    assert QuotaEntity.of_path(path) == entity


@given(NAMES, NAMES)
def test_every_name_survives_its_path(user: str, client_id: str) -> None:
    for entity in (QuotaEntity(user), QuotaEntity(None, client_id), QuotaEntity(user, client_id)):
        assert QuotaEntity.of_path(entity.path) == entity


@pytest.mark.parametrize("path", ["users", "topics/t", "users/a/clients", "users/a/b/c", "clients/a/clients/b", ""])
def test_no_entity(path: str) -> None:
    assert QuotaEntity.of_path(path) is None


def test_names_are_encoded_as_in_java() -> None:
    assert sanitized("a b+c*d~e-f_g.h/i%j") == "a%20b%2Bc%2Ad%7Ee-f_g.h%2Fi%25j"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.5, "1.5"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-123456789.0, "-1.23456789E8"),
        (1e300, "1.0E300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_written_as_in_java(value: float, text: str) -> None:
    assert quota_text(QuotaKind.REQUEST, value) == text
    read = QuotaKind.REQUEST.parse(text)
    assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (QuotaKind.PRODUCE, 1000.0000001, "1000"),
        (QuotaKind.PRODUCE, 2.0**63, str(2**63 - 1)),
        (QuotaKind.PRODUCE, 1.5, None),
        (QuotaKind.FETCH, -1.0, None),
        (QuotaKind.CONNECTION, 2.0**31 - 1, "2147483647"),
        (QuotaKind.CONNECTION, 2.0**31, None),
        (QuotaKind.CONNECTION, math.inf, None),
        (QuotaKind.CONNECTION, math.nan, "0"),
    ],
)
def test_whole_numbers(kind: QuotaKind, value: float, text: str | None) -> None:
    if text is None:
        with pytest.raises(ValueError, match="must be a"):
            quota_text(kind, value)
    else:
        assert quota_text(kind, value) == text


def test_what_is_no_quota_or_no_number_counts_as_none() -> None:
    settings = {"producer_byte_rate": "7", "consumer_byte_rate": "many", "SCRAM-SHA-256": "salt=x"}
    assert quotas_in({**settings, "connection_creation_rate": "1"}, CLIENT_KINDS) == {QuotaKind.PRODUCE: 7.0}
    assert quota_kind("SCRAM-SHA-256") is None
