"""What requests are charged, on a clock that the test moves; with quotas, both paths of Produce behave alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.handlers import ALL
from broker.handlers.brokers.leader_and_isr import leader_and_isr
from broker.handlers.groups.heartbeat import heartbeat
from broker.handlers.records.fetch import fetch
from broker.handlers.records.produce import produce
from broker.handlers.topics.create_topics import create_topics
from broker.network.gate import BrokerGate, Gate, OpenGate
from broker.network.quotas.client_quotas import Quotas
from broker.network.request_context import RequestContext
from broker.network.routes import Handler, Route
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsResponse
from protocol.messages.fetch import FetchResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.produce import ProduceResponse
from protocol.schema import Response
from security.principal import Principal
from tests.broker import contexts
from tests.broker.handlers.records.produce_twins import Twins, on_twins, request_of, teach
from tests.broker.quota_world import quotas_of
from tests.doubles.clock import ManualClock
from tests.storage.logs import batch


def context_of(user: str = "alice", client_id: str | None = "app", version: int = 7) -> RequestContext:
    return contexts.context_of(version=version, client_id=client_id, principal=Principal("User", user))


def route(handler: Handler[object]) -> Route:
    return Route(handler, handler.last_version)


def test_without_quotas_nothing_is_counted() -> None:
    quotas = quotas_of()
    assert quotas.charge(route(produce), context_of(), 10**9, 100, None) == 0
    assert not (quotas.times_requests or quotas.counts_fetches or quotas.fetch.is_on)
    assert quotas.mutations(context_of(), 1) is None
    assert len(quotas.produce) == 0


def test_quotas_that_are_removed_cost_nothing_any_more() -> None:
    quotas = quotas_of(users__alice={"producer_byte_rate": "1", "request_percentage": "1"})
    assert quotas.charge(route(produce), context_of(), 100, 100, None) > 0
    quotas.apply_entity("users/alice", {"SCRAM-SHA-256": "salt=x"})
    assert quotas.charge(route(produce), context_of(), 100, 100, None) == 0
    assert not quotas.times_requests


def _throttles_ms(quotas: Quotas) -> dict[str, tuple[int, int]]:
    """By API, how often requests were throttled, and for how long in all."""
    return {name: (times.count, times.total // 1_000_000) for name, times in quotas.throttles.items()}


def test_produce_bytes() -> None:
    clock = ManualClock()
    quotas = quotas_of(clock, users__alice={"producer_byte_rate": "1000"})
    charge = lambda size: quotas.charge(route(produce), context_of(), size, 50, None)
    assert charge(10_000) == 0, "ten windows' worth"
    assert charge(1_000) == 1_000
    assert quotas.charge(route(produce), context_of("bob"), 10**6, 50, None) == 0
    clock.now_ms += 11_000
    assert charge(1_000) == 0
    assert _throttles_ms(quotas) == {"Produce": (1, 1_000)}


def test_a_produce_without_response_is_charged() -> None:
    quotas = quotas_of(users__alice={"producer_byte_rate": "1000"})
    assert quotas.charge(route(produce), context_of(), 11_000, 0, None) == 1_000


def test_other_requests_count_no_bytes() -> None:
    quotas = quotas_of(users__alice={"producer_byte_rate": "1", "consumer_byte_rate": "1"})
    response = HeartbeatResponse(error_code=0)
    assert quotas.charge(route(heartbeat), context_of(), 10**6, 10**6, response) == 0


def test_fetched_bytes_are_taken_back_when_they_are_too_many() -> None:
    clock = ManualClock()
    quotas = quotas_of(clock, clients__app={"consumer_byte_rate": "100"})
    context = context_of()
    assert quotas.throttle_fetch(context, 1_000) == 0
    assert quotas.throttle_fetch(context, 100) == 1_000
    assert quotas.throttle_fetch(context, 100) == 1_000, "the bytes before were taken back"
    response = FetchResponse(throttle_time_ms=1_000, responses=[])
    assert quotas.charge(route(fetch), context, 70, 30, response) == 1_000
    assert quotas.charge(route(fetch), context, 70, 30, FetchResponse(responses=[])) == 0
    assert {name: times for name, (times, _) in _throttles_ms(quotas).items()} == {"Fetch": 1, "FetchConsumer": 1}
    assert quotas.largest_fetch_bytes(context) == 1_000


def test_a_fetch_that_fails_as_a_whole_is_charged_like_other_requests() -> None:
    quotas, run = timed_quotas({"request_percentage": "1"})
    context = run(1_000)
    response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    assert quotas.charge(route(fetch), context, 70, 30, response) == 1_000


def timed_quotas(settings: dict[str, str]) -> tuple[Quotas, Callable[[int], RequestContext]]:
    """Quotas of alice; and what takes some milliseconds for a request of hers."""
    clock = ManualClock()
    quotas = quotas_of(clock, users__alice=settings)
    context = context_of()

    def work(duration_ms: int) -> None:
        clock.now_ms += duration_ms

    def run(duration_ms: int) -> RequestContext:
        quotas.timed(context.connection, work, duration_ms)
        return context

    return quotas, run


def test_the_time_of_requests() -> None:
    """Ten percent, in a window of eleven seconds: a second at once is as much as ten windows allow."""
    quotas, run = timed_quotas({"request_percentage": "10"})
    response = HeartbeatResponse(error_code=0)
    context = run(900)
    assert quotas.charge(route(heartbeat), context, 10, 10, response) == 0
    assert quotas.charge(route(heartbeat), context, 10, 10, response) == 0, "counted once"
    run(200)
    assert quotas.charge(route(heartbeat), context, 10, 10, response) > 0


def test_the_throttle_time_for_time_is_at_most_a_window() -> None:
    quotas, run = timed_quotas({"request_percentage": "0.001"})
    context = run(5_000)
    assert quotas.charge(route(heartbeat), context, 10, 10, HeartbeatResponse(error_code=0)) == 1_000


def test_brokers_and_requests_without_response_are_exempt() -> None:
    quotas, run = timed_quotas({"request_percentage": "0.001"})
    assert quotas.charge(route(leader_and_isr), run(5_000), 10, 10, None) == 0
    assert quotas.charge(route(produce), run(5_000), 10, 0, None) == 0
    assert quotas.charge(route(heartbeat), run(0), 10, 10, HeartbeatResponse(error_code=0)) == 0, "its time is not kept"


def test_the_longest_throttle_time_counts() -> None:
    quotas, run = timed_quotas({"request_percentage": "0.001", "producer_byte_rate": "1000"})
    assert quotas.charge(route(produce), run(5_000), 10, 10, ProduceResponse(responses=[])) == 1_000
    assert quotas.charge(route(produce), run(0), 30_000, 10, ProduceResponse(responses=[])) > 2_000


def test_a_fetch_that_takes_too_long_takes_no_bytes() -> None:
    quotas, run = timed_quotas({"request_percentage": "0.001", "consumer_byte_rate": "1000"})
    assert quotas.throttle_fetch(run(5_000), 10_000) == 1_000
    (rate,) = quotas.fetch
    assert rate.rate.per_second(5_000) == 0


def test_a_handler_that_waits_is_timed_in_its_turns() -> None:
    clock = ManualClock()
    quotas = quotas_of(clock, users__alice={"request_percentage": "1"})
    context = context_of()

    def turns():
        clock.now_ms += 10
        try:
            yield "first"
        except RuntimeError:
            clock.now_ms += 1
        clock.now_ms += 100
        given = yield "second"
        return given

    rest = quotas.timed_rest(context.connection, turns())
    assert next(rest) == "first"
    clock.now_ms += 5_000  # it waits
    assert rest.throw(RuntimeError()) == "second"
    clock.now_ms += 5_000
    with pytest.raises(StopIteration) as stop:
        rest.send("value")
    assert stop.value.value == "value"
    assert context.connection.processing_ns == 111_000_000


# --- changes of topics ---


def test_strict_mutations() -> None:
    clock = ManualClock(1_000)
    quotas = quotas_of(clock, users__alice={"controller_mutation_rate": "2"})
    first = quotas.mutations(context_of(version=6), 6)
    assert first is not None
    first.take(30)
    assert first.throttle_time_ms == 0, "the bucket had 22 tokens: more is permitted once"
    second = quotas.mutations(context_of(version=6), 6)
    assert second is not None
    with pytest.raises(KafkaError) as refused:
        second.take(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert second.throttle_time_ms == 4_000
    clock.now_ms += 1_500
    assert second.throttle_time_ms == 2_500, "it has waited since"
    clock.now_ms += 2_500
    second.take(1)


def test_mutations_of_clients_that_do_not_know_the_error() -> None:
    quotas = quotas_of(users__alice={"controller_mutation_rate": "2"})
    mutations = quotas.mutations(context_of(version=5), 6)
    assert mutations is not None
    mutations.take(20)
    assert mutations.throttle_time_ms == 0
    mutations.take(6)
    assert mutations.throttle_time_ms == 2_000
    response = CreateTopicsResponse(throttle_time_ms=2_000, topics=[])
    assert quotas.charge(route(create_topics), context_of(), 10, 10, response) == 2_000


def test_nobody_without_a_limit_is_refused() -> None:
    quotas = quotas_of(users__alice={"controller_mutation_rate": "0"})
    mutations = quotas.mutations(context_of("bob"), 0)
    assert mutations is not None
    for _ in range(3):
        mutations.take(10**9)
    assert mutations.throttle_time_ms == 0


# --- on connections ---


@pytest.mark.parametrize("version", [5, 9, 11])
def test_both_paths_of_produce_are_throttled_alike(tmp_path: Path, version: int) -> None:
    clock = ManualClock(1_000)
    made = [quotas_of(clock, clients__client={"producer_byte_rate": "100"}) for _ in range(2)]
    rest = iter(made)

    async def scenario(both: Twins) -> None:
        await teach(both, version)
        for _ in range(12):
            both.send(both.frame(request_of(batch("a")), version))
        await both.compare()
        for _ in range(40):
            for side in both.sides:
                side.broker.turns.advance(500)
            clock.now_ms += 500
            await both.compare()
        assert both.short_count == 12
        assert _throttles_ms(made[0]) == _throttles_ms(made[1])
        assert made[0].throttles["Produce"].count > 2

    def make_gate() -> Gate:
        quotas = next(rest)
        return BrokerGate(OpenGate(), quotas, quotas)

    on_twins(tmp_path, scenario, make_gate=make_gate)


def test_only_brokers_requests_are_exempt() -> None:
    quotas, run = timed_quotas({"request_percentage": "0.000001"})
    exempt = set()
    for handler in ALL:
        if handler.api_name in ("Fetch", "ShareFetch", "CreateTopics", "DeleteTopics", "CreatePartitions"):
            continue
        response: Response = HeartbeatResponse(error_code=0)
        if not quotas.charge(route(handler), run(1_000), 10, 10, response):
            exempt.add(handler.api_name)
    assert exempt == {
        "AllocateProducerIds", "AlterPartition", "ControlledShutdown", "DeleteShareGroupState",
        "InitializeShareGroupState", "LeaderAndIsr", "ReadShareGroupState", "ReadShareGroupStateSummary", "StopReplica",
        "UpdateMetadata", "WriteShareGroupState", "WriteTxnMarkers",
    }  # fmt: skip


# --- mean rates ---

WARM_UP_MS, MEASURED_MS = 12_000, 60_000
"""A client may begin with what ten windows allow at once."""


@pytest.mark.parametrize("request_bytes", [5_000, 90_000, 1_500_000])
@pytest.mark.parametrize("limit", [50_000, 1_000_000])
@pytest.mark.parametrize("kind", ["produce", "fetch"])
def test_the_mean_rate_of_a_client_that_sends_all_it_may_is_the_quota(
    kind: str, limit: int, request_bytes: int
) -> None:
    clock = ManualClock()
    setting = "producer_byte_rate" if kind == "produce" else "consumer_byte_rate"
    quotas = quotas_of(clock, clients__app={setting: str(limit)})
    context, taken = context_of(), 0
    while clock.now_ms < WARM_UP_MS + MEASURED_MS:
        if kind == "produce":
            throttle_ms = quotas.charge(route(produce), context, request_bytes, 50, None)
            size = request_bytes
        else:
            size = int(min(request_bytes, quotas.largest_fetch_bytes(context)))
            throttle_ms = quotas.throttle_fetch(context, size)
            size = 0 if throttle_ms else size
        if clock.now_ms >= WARM_UP_MS:
            taken += size
        clock.now_ms += max(throttle_ms, 1)
    granularity = max(request_bytes, 1) / (limit * MEASURED_MS / 1000)
    assert taken / (MEASURED_MS / 1000) == pytest.approx(limit, rel=0.15 + granularity)
