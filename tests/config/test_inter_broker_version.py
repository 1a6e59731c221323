"""inter.broker.protocol.version against MetadataVersion's table, sampled around every change."""

from __future__ import annotations

from itertools import pairwise

import pytest

from config.errors import ConfigError
from config.inter_broker_version import LATEST, InterBrokerVersion
from config.validators import METADATA_VERSIONS


@pytest.mark.parametrize(
    ("text", "fetch", "list_offsets", "epochs", "leader_and_isr", "update_metadata", "stop_replica"),
    [
        ("0.8.0", 0, 0, 0, 0, 0, 0),
        ("0.9.0", 1, 0, 0, 0, 1, 0),
        ("0.10.0-IV0", 2, 0, 0, 0, 1, 0),
        ("0.10.0", 2, 0, 0, 0, 2, 0),
        ("0.10.2", 3, 1, 0, 0, 3, 0),
        ("0.11.0-IV0", 4, 2, 0, 0, 3, 0),
        ("0.11.0.3", 5, 2, 0, 0, 3, 0),
        ("1.0", 5, 2, 0, 1, 4, 0),
        ("1.1.1", 7, 2, 0, 1, 4, 0),
        ("2.0", 8, 3, 1, 1, 4, 0),
        ("2.1", 10, 4, 2, 1, 4, 0),
        ("2.2", 10, 5, 2, 2, 5, 1),
        ("2.3", 11, 5, 3, 2, 5, 1),
        ("2.4-IV0", 11, 5, 3, 3, 5, 1),
        ("2.4", 11, 5, 3, 4, 6, 2),
        ("2.6", 11, 5, 3, 4, 6, 3),
        ("2.7", 12, 5, 3, 4, 6, 3),
        ("2.8-IV0", 12, 6, 4, 4, 6, 3),
        ("2.8", 12, 6, 4, 5, 7, 3),
        ("3.0", 12, 7, 4, 5, 7, 3),
        ("3.1", 13, 7, 4, 5, 7, 3),
        ("3.2", 13, 7, 4, 6, 7, 3),
        ("3.4", 13, 7, 4, 7, 8, 4),
        ("3.5-IV0", 14, 8, 4, 7, 8, 4),
        ("3.6", 15, 8, 4, 7, 8, 4),
        ("3.7", 16, 8, 4, 7, 8, 4),
        ("3.9-IV0", 17, 9, 4, 7, 8, 4),
        ("3.9.1", 17, 9, 4, 7, 8, 4),
    ],
)
def test_request_versions(
    text: str, fetch: int, list_offsets: int, epochs: int, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    version = InterBrokerVersion.parse(text)
    assert (version.fetch, version.list_offsets, version.offset_for_leader_epoch) == (fetch, list_offsets, epochs)
    assert version.leader_and_isr == leader_and_isr
    assert version.update_metadata == update_metadata
    assert version.stop_replica == stop_replica
    assert version.write_txn_markers == (1 if version.is_at_least("2.8-IV0") else 0)


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("supports_offset_for_leader_epoch", "0.11.0-IV2"),
        ("supports_static_members", "2.3-IV0"),
        ("supports_feature_versioning", "2.7-IV0"),
        ("truncates_on_fetch", "2.7-IV1"),
        ("supports_alter_partition", "2.7-IV2"),
        ("supports_topic_ids", "2.8-IV0"),
        ("supports_producer_id_allocation", "3.0-IV0"),
        ("supports_leader_recovery", "3.2-IV0"),
    ],
)
def test_abilities_begin_with_a_release(name: str, since: str) -> None:
    able = [release for release in METADATA_VERSIONS.releases if getattr(InterBrokerVersion.parse(release), name)]
    assert able[0] == since
    assert able == list(METADATA_VERSIONS.releases[-len(able) :])


@pytest.mark.parametrize(
    ("text", "offset_commit", "group_metadata"),
    [
        ("0.10.0", 1, 0),
        ("0.10.1-IV0", 1, 1),
        ("2.0", 1, 1),
        ("2.1-IV0", 2, 2),
        ("2.1-IV1", 3, 2),
        ("2.2", 3, 2),
        ("2.3-IV0", 3, 3),
        ("3.9", 3, 3),
    ],
)
def test_versions_of_the_records_of_groups(text: str, offset_commit: int, group_metadata: int) -> None:
    version = InterBrokerVersion.parse(text)
    assert (version.offset_commit_value, version.group_metadata_value) == (offset_commit, group_metadata)


def test_order_and_names() -> None:
    versions = [InterBrokerVersion.parse(release) for release in METADATA_VERSIONS.releases]
    assert all(older < newer for older, newer in pairwise(versions))
    assert [str(each) for each in versions] == list(METADATA_VERSIONS.releases)
    assert str(InterBrokerVersion.parse("2.7")) == "2.7-IV2"
    assert str(LATEST) == "3.9-IV0"
    assert all(older.fetch <= newer.fetch for older, newer in pairwise(versions))


@pytest.mark.parametrize("text", ["", "3", "9.9", "2.7-IV9", "IV0", "0.10"])
def test_unknown_versions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid version"):
        InterBrokerVersion.parse(text)
