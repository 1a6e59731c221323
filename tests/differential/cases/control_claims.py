"""Control requests to a broker that is its own controller: they come from nobody it could believe."""

from __future__ import annotations

from typing import Any

from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.schema import Request
from tests.differential.cases.control import BROKER_EPOCH_SINCE, OURS, leading, led, metadata_of
from tests.differential.cases.stop_replica import stopping
from tests.differential.play import Run, case


def harmless(run: Run, api: type[Request], **claims: Any) -> Any:
    """A request that tells such a broker nothing new."""
    if api is UpdateMetadataRequest:
        return metadata_of(run, {}, **claims)
    if api is LeaderAndIsrRequest:
        return leading(run, {}, **claims)
    return stopping(run, **claims)


def in_the_name_of_the_controller(run: Run) -> None:
    """Of the broker itself, that is, in its term of now."""
    run.ask(harmless(run, run.case.api))


def of_another_term_or_life(run: Run) -> None:
    api = run.case.api
    claims = [{"controller_epoch": 0}]
    if run.version >= BROKER_EPOCH_SINCE[api.api_name]:
        claims.append({"broker_epoch": 0})
    for claim in claims:
        run.ask(harmless(run, api, **claim))
        if api is LeaderAndIsrRequest:  # the one that answers for each partition even then
            run.ask(leading(run, {run.name("t"): [led(OURS), led(OURS, 1)], run.name("u"): []}, **claim))


for _api in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest):
    case(_api, "wrong")(in_the_name_of_the_controller)
    case(_api, "wrong")(of_another_term_or_life)
