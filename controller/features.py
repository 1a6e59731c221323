"""Finalized features (KIP-584): the node that every cluster has, and UpdateFeatures.

Rules: a level above 0 is finalized only while every registered broker supports it; one of Apache Kafka 3.9 supports none.
Level 0 is stored as the absence of the feature, and no group or transaction keeps anybody from it. Levels apply only with
inter.broker.protocol.version 2.7-IV0 and later: a controller below it disables them, a later one enables them again.
Versions 0 and 1 of the request update each feature on its own, by the rules and in the words of 3.9.1. Version 2 updates
all or none, by those of 4.3.
Source: Kafka 3.9 KafkaController.processFeatureUpdates, maybeSetupFeatureVersioning; Kafka 4.3 FeatureControlManager; KIP-778
(kinds of upgrade), KIP-1022.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from controller.controller_context import LiveBroker
from controller.controller_term import Term
from metadata.admin.topic_requests import Outcome
from metadata.features import REGISTERED
from metadata.store import znodes
from metadata.store.port import Create, NoNodeError, SetData, Stat, StoreError
from metadata.store.znodes import FinalizedFeatures
from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

SUPPORTED: Mapping[str, tuple[int, int]] = {  # (lowest, highest) level by feature
    name: (levels["min_version"], levels["max_version"]) for name, levels in REGISTERED.items()
}
ALL_OR_NONE = 2
"""The version of the request from which on updates are one."""
logger = logging.getLogger(__name__)


class Upgrade(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    feature: str
    level: int
    kind: Upgrade

    @property
    def is_deletion(self) -> bool:
        return self.level < 1 and self.kind is not Upgrade.UPGRADE


def refusal(update: FeatureUpdate, existing: int | None, brokers: list[Mapping[str, Mapping[str, int]]]) -> str | None:
    """Return why `update` is invalid, None if it is valid. `brokers` are the features of live brokers. Pure."""
    if not update.feature:
        return "Feature name can not be empty."
    if update.kind is Upgrade.UNKNOWN:
        return "Received unknown upgrade type."
    if update.is_deletion:
        return "Can not delete non-existing finalized feature." if existing is None else None
    if update.level < 1:
        return (
            f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType "
            "in the request."
        )
    if existing is not None:
        reason = _refused_move(update, existing)
        if reason is not None:
            return reason
    return _unsupported(update, brokers)


def _refused_move(update: FeatureUpdate, existing: int) -> str | None:
    if update.level == existing:
        move = "downgrade" if update.kind is Upgrade.SAFE_DOWNGRADE else "upgrade"
        return f"Can not {move} a finalized feature from existing versionLevel:{existing} to the same value."
    if update.level < existing and update.kind is not Upgrade.SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to provided "
            f"versionLevel:{update.level} without setting the downgradeType to SAFE in the request."
        )
    if update.level > existing and update.kind is not Upgrade.UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{update.level} "
            f"can not be greater than existing versionLevel:{existing}."
        )
    return None


def _unsupported(update: FeatureUpdate, brokers: list[Mapping[str, Mapping[str, int]]]) -> str | None:
    levels = SUPPORTED.get(update.feature)
    if levels is None:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if not levels[0] <= update.level <= levels[1]:
        return (
            f"Could not apply finalized feature update because the provided versionLevel:{update.level} is lower "
            f"than the supported minVersion:{levels[0]}."
        )
    for theirs in brokers:
        known = theirs.get(update.feature, {})
        if not known.get("min_version", 1) <= update.level <= known.get("max_version", 0):
            return (
                "Could not apply finalized feature update because brokers were found to have incompatible versions "
                "for the feature."
            )
    return None


def requested(request: UpdateFeaturesRequest, version: int) -> list[FeatureUpdate]:
    updates = []
    for row in request.feature_updates:
        if version == 0:
            kind = Upgrade.SAFE_DOWNGRADE if row.allow_downgrade else Upgrade.UPGRADE
        else:
            kind = Upgrade(row.upgrade_type) if row.upgrade_type in list(Upgrade) else Upgrade.UNKNOWN
        updates.append(FeatureUpdate(row.feature, row.max_version_level, kind))
    return updates


def refusal_of_any(
    update: FeatureUpdate, existing: int, controller_id: int, brokers: Mapping[int, LiveBroker]
) -> str | None:
    """Return why `update` is invalid among updates that are made together, None if it is valid. Pure."""
    reason = None
    if update.kind is Upgrade.UNKNOWN:
        reason = "The controller does not support the given upgrade type."
    elif update.level < 0:
        reason = "A feature version cannot be less than 0."
    elif update.level > 0:
        reason = _unsupported_by_any(update, controller_id, brokers)
    elif update.feature not in SUPPORTED:
        reason = f"Feature {update.feature} not found."
    if reason is None and update.level < existing and update.kind is Upgrade.UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if reason is None and update.level > existing and update.kind is not Upgrade.UPGRADE:
        reason = "Can't downgrade to a newer version."
    return reason and f"Invalid update version {update.level} for feature {update.feature}. {reason}"


def _unsupported_by_any(update: FeatureUpdate, controller_id: int, brokers: Mapping[int, LiveBroker]) -> str | None:
    supported = {f"Local controller {controller_id}": SUPPORTED.get(update.feature, (0, 0))[1]} | {
        f"Broker {broker_id}": broker.registration.features.get(update.feature, {}).get("max_version", 0)
        for broker_id, broker in sorted(brokers.items())
    }
    for who, last in supported.items():
        if update.level > last:
            return f"{who} only supports versions 0-{last}" if last else f"{who} does not support this feature."
    return None


@dataclass(frozen=True, slots=True)
class Updated:
    """`epoch` is the version of the node from which on the response holds; None when nothing was written."""

    response: UpdateFeaturesResponse
    epoch: int | None = None


async def update(term: Term, request: UpdateFeaturesRequest, version: int, controller_id: int) -> Updated:
    if not term.context.version.supports_feature_versioning:
        return Updated(_as_a_whole(Outcome(ErrorCode.INVALID_REQUEST, "Feature versioning system is disabled.")))
    if version >= ALL_OR_NONE:
        return await _update_together(term, request, version, controller_id)
    return await _update_each(term, request, version)


async def _update_together(term: Term, request: UpdateFeaturesRequest, version: int, controller_id: int) -> Updated:
    finalized, stat = await _read(term)
    levels = dict(finalized.levels)
    for each in {update.feature: update for update in requested(request, version)}.values():
        existing = finalized.levels.get(each.feature, 0)
        reason = refusal_of_any(each, existing, controller_id, term.context.live_brokers)
        if reason is not None:
            text = f"The update failed for all features since the following feature had an error: {reason}"
            return Updated(_as_a_whole(Outcome(ErrorCode.INVALID_UPDATE_VERSION, text)))
        _apply(each, levels)
    if levels == finalized.levels or request.validate_only:
        return Updated(_as_a_whole(Outcome()))
    epoch = await _write(term, FinalizedFeatures(levels), stat)
    if epoch is None:
        return Updated(_as_a_whole(Outcome(ErrorCode.FEATURE_UPDATE_FAILED)))
    return Updated(_as_a_whole(Outcome()), epoch)


def _as_a_whole(outcome: Outcome) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=outcome.code, error_message=outcome.message, results=[]
    )


def _apply(update: FeatureUpdate, levels: dict[str, int]) -> None:
    if update.level < 1:
        levels.pop(update.feature, None)
    else:
        levels[update.feature] = update.level


async def _update_each(term: Term, request: UpdateFeaturesRequest, version: int) -> Updated:
    """Update features independently of each other; all valid updates are written in one operation."""
    finalized, stat = await _read(term)
    levels = dict(finalized.levels)
    brokers = [each.registration.features for each in term.context.live_brokers.values()]
    outcomes: dict[str, Outcome] = {}
    for each in requested(request, version):
        reason = refusal(each, finalized.levels.get(each.feature), brokers)
        if reason is not None:
            outcomes[each.feature] = Outcome(ErrorCode.INVALID_REQUEST, reason)
            continue
        outcomes[each.feature] = Outcome()
        _apply(each, levels)
    epoch = None
    if levels != finalized.levels and not request.validate_only:
        epoch = await _write(term, FinalizedFeatures(levels), stat)
        if epoch is None:
            failed = Outcome(ErrorCode.FEATURE_UPDATE_FAILED)
            outcomes = {name: failed if each.code is ErrorCode.NONE else each for name, each in outcomes.items()}
    response = UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=name, error_code=each.code, error_message=each.message)
            for name, each in outcomes.items()
        ],
    )
    return Updated(response, epoch)


async def set_up(term: Term) -> None:
    """At the begin of a term, create the node, or update whether levels apply."""
    finalized, stat = await _read(term)
    is_enabled = term.context.version.supports_feature_versioning
    levels = finalized.levels if is_enabled and finalized.is_enabled else {}
    wanted = FinalizedFeatures(levels, is_enabled)
    if stat is None or wanted != finalized:
        logger.info("feature versions read: enabled=%s levels=%s", is_enabled, dict(levels))
        await _write(term, wanted, stat)


async def _read(term: Term) -> tuple[FinalizedFeatures, Stat | None]:
    try:
        data, stat = await term.session.get(znodes.FEATURE)
    except NoNodeError:
        return FinalizedFeatures(), None
    try:
        return FinalizedFeatures.decode(data), stat
    except ValueError as error:
        logger.warning("feature versions unreadable, treated as disabled: error=%s", error)
        return FinalizedFeatures({}, is_enabled=False), stat


async def _write(term: Term, features: FinalizedFeatures, stat: Stat | None) -> int | None:
    """Return the version of the node, None when it has changed meanwhile."""
    data = features.encode(with_minimum=term.context.version.writes_feature_minimum)
    change = Create(znodes.FEATURE, data) if stat is None else SetData(znodes.FEATURE, data, stat.version)
    [outcome] = await term.write_many([[change]])
    if isinstance(outcome, StoreError):
        return None
    return 0 if stat is None else stat.version + 1
