"""Feature levels of a cluster: changed by a request, known to every broker, refused while a broker does not support them."""

from __future__ import annotations

from metadata.features import NEWEST_LEVELS, NO_LEVELS, FeatureLevels
from metadata.store import znodes
from metadata.store.znodes import BrokerRegistration, FinalizedFeatures, RegisteredEndpoint
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

G, T, S = "group.version", "transaction.version", "share.version"
TOGETHER = 2


async def update(
    world: ClusterWorld, version: int, *rows: tuple[str, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1 if level else 2) for name, level in rows
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    return await world.ask(world.controller_id, request, version, UpdateFeaturesResponse)


async def versions(world: ClusterWorld, broker_id: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return await world.ask(broker_id, request, 4, ApiVersionsResponse)


def last_of_update_features(answer: ApiVersionsResponse) -> int:
    return next(row.max_version for row in answer.api_keys if row.api_key == UpdateFeaturesRequest.api_key)


@simulated(1)
async def test_levels_are_set_together_told_by_every_broker_and_taken_away(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1, 2))
    await world.start()
    levels = {broker_id: broker.services.features for broker_id, broker in world.live.items()}
    at_none = await versions(world, 1)
    assert (at_none.supported_features, at_none.finalized_features, at_none.finalized_features_epoch) == ([], [], 0)
    assert last_of_update_features(at_none) == 1

    checked = await update(world, 1, (G, 1), validate_only=True)
    assert [(row.feature, row.error_code) for row in checked.results] == [(G, 0)]
    first = await update(world, 1, (G, 1), ("other", 1))
    assert [(row.feature, row.error_code) for row in first.results] == [(G, 0), ("other", ErrorCode.INVALID_REQUEST)]
    assert levels[world.controller_id].levels == FeatureLevels(group=1), "the response comes when it is known here"
    await world.until(lambda: all(each.levels == FeatureLevels(group=1) for each in levels.values()))

    refused = await update(world, TOGETHER, (T, 2), (G, 9))
    assert (refused.error_code, refused.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert await world.ensemble.connect().get(znodes.FEATURE) is not None
    checked = await update(world, TOGETHER, (T, 2), validate_only=True)
    assert (checked.error_code, levels[1].levels) == (0, FeatureLevels(group=1))
    assert (await update(world, TOGETHER, (T, 2), (S, 1))).error_code == 0
    await world.until(lambda: all(each.levels == NEWEST_LEVELS for each in levels.values()))
    for broker_id in world.live:
        told = await versions(world, broker_id)
        assert {row.name: row.max_version_level for row in told.finalized_features} == NEWEST_LEVELS.above_zero
        assert (told.finalized_features_epoch, last_of_update_features(told)) == (2, 2)

    assert (await update(world, TOGETHER, (G, 0), (T, 0), (S, 0))).error_code == 0
    await world.until(lambda: all(each.levels == NO_LEVELS for each in levels.values()))
    data, _ = await world.ensemble.connect().get(znodes.FEATURE)
    assert data == FinalizedFeatures().encode()
    last = await versions(world, 2)
    assert (last.supported_features, last.finalized_features, last.finalized_features_epoch) == ([], [], 3)


@simulated(2)
async def test_a_level_that_a_broker_does_not_support_is_refused_while_it_is_there(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1, 2))
    await world.start()
    store = world.ensemble.connect()
    await store.create(
        znodes.broker_path(9),
        BrokerRegistration(9, (RegisteredEndpoint("PLAINTEXT", "host9", 9092),), 0).encode(),
        ephemeral=True,
    )
    await world.until(lambda: 9 in world.live[1].metadata.image.brokers)
    refused = await update(world, 1, (G, 1))
    assert [row.error_code for row in refused.results] == [ErrorCode.INVALID_REQUEST]
    assert "brokers were found to have incompatible versions" in (refused.results[0].error_message or "")
    await store.delete(znodes.broker_path(9))
    await world.until(lambda: 9 not in world.live[1].metadata.image.brokers)
    assert [row.error_code for row in (await update(world, 1, (G, 1))).results] == [0]


@simulated(3)
async def test_without_feature_versions_nothing_is_updated(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1,), inter_broker_protocol_version="2.6")
    await world.start()
    refused = await update(world, 1, (G, 1))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Feature versioning system is disabled.",
    )
