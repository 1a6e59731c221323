"""ApiVersions of a broker with feature levels."""

from __future__ import annotations

from typing import Any

from protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.newer.client_metrics import METRICS, OF_NOBODY, altering
from tests.differential.play import Run, newer_case

FEATURES = ("group.version", "transaction.version", "share.version")
"""Those that this broker has, too; the others belong to KRaft, or to Kafka Streams."""
KEYS = (0, 1, 2, 3, 8, 9, 11, 12, 13, 14, 15, 16, 18, 22, 24, 25, 26, 27, 28, 35, 57, 60, 66, 68, 69, 71, 72, 74,
        *range(76, 80), *range(83, 88), *range(90, 93))  # fmt: skip
"""APIs whose newest version is the same on both."""


def _asking() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="differential", client_software_version="1.0")


def only_features(answer: Any) -> None:
    """The epoch counts changes, and is told from none at all."""
    answer.api_keys = []
    answer.finalized_features_epoch = min(answer.finalized_features_epoch, 0)
    answer.supported_features = [row for row in answer.supported_features if row.name in FEATURES]
    answer.finalized_features = [row for row in answer.finalized_features if row.name in FEATURES]


@newer_case(ApiVersionsRequest)
def features(run: Run) -> None:
    run.ask(_asking(), pick=only_features)


@newer_case(ApiVersionsRequest)
def newest_versions(run: Run) -> None:
    """With a subscription of client metrics: without one this broker does not tell of their APIs."""
    run.do(altering(run.name("subscription"), {METRICS: "org.", **OF_NOBODY}))
    newest = {row.api_key: row.max_version for row in run.do(_asking(), run.version).api_keys}
    run.do(altering(run.name("subscription"), {METRICS: None, **dict.fromkeys(OF_NOBODY)}))
    run.note({str(key): newest.get(key) for key in KEYS})
