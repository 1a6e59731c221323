"""The jobs that write to topics, route and deduplicate, without a jar; what route puts aside comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from barnabas.commands import main
from barnabas.pipeline import deduplicate, route
from tests.interop.spark.job_cases import Given, consume, need_spark, produce, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    need_spark()
    topics = ("orders", "orders-fr", "refunds", "other", "dead", "clicks", "clicks-once")
    with EmbeddedBroker(dict.fromkeys(topics, 1), {"log.retention.ms": -1}) as broker:
        yield broker.bootstrap_servers


def test_records_are_routed_die_and_come_back_with_their_attempts(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    common: dict[str, Any] = {"bootstrap_servers": servers}
    routing = {
        **common, "source": "orders", "dead_letter": "dead", "checkpoint": tmp_path / "route", "json": True,
        "required": ["value.id"],
        "rule": ["header.kind ~ ^refund -> refunds", "value.country = FR -> orders-fr", "value.amount >= 10 -> other"],
    }  # fmt: skip
    produce(
        servers,
        "orders",
        [
            Given({"id": 1, "country": "FR"}, "a", {"trace": "t1"}),
            Given({"id": 2, "country": "FR"}, "b", {"kind": "refund-all"}),
            Given({"id": 3, "country": "DE", "amount": 10}, "c"),
            Given({"id": 4, "country": "DE", "amount": "many"}, "d"),
            Given(b"no json", "e", {"trace": "t5"}),
            Given({"country": "FR"}, "f"),
            Given(None, "g"),
        ],
    )
    run = run_job(route.job, spark, **routing)
    assert run.totals.summary() == "read 7, dropped 0, wrote 7, 4 dead letters"
    assert [(each.key, each.headers) for each in consume(servers, "orders-fr")] == [("a", {"trace": "t1"})]
    assert [each.key for each in consume(servers, "refunds")] == ["b"]
    assert [each.key for each in consume(servers, "other")] == ["c"]
    dead = consume(servers, "dead")
    assert [(each.key, each.headers["barnabas-reason"], each.headers["barnabas-source-offset"]) for each in dead] == [
        ("d", "no rule matches", "3"),
        ("e", "the value is no JSON", "4"),
        ("f", "there is no value.id", "5"),
        ("g", "the value is no JSON", "6"),
    ]
    assert dead[1].value == b"no json"
    assert dead[1].headers == {
        "trace": "t5",
        "barnabas-reason": "the value is no JSON",
        "barnabas-source-topic": "orders",
        "barnabas-source-partition": "0",
        "barnabas-source-offset": "4",
        "barnabas-source-timestamp": "1769853600000",
        "barnabas-attempt": "1",
    }

    requeue = ["dlq", "requeue", "dead", "--keep-attempts", "--execute", "--bootstrap-server", servers]
    for attempt in (1, 2):
        assert main(requeue) == 0
        again = consume(servers, "orders")[7 + 4 * (attempt - 1) :]
        assert {each.key: each.headers for each in again} == {
            "d": {"barnabas-attempt": str(attempt)},
            "e": {"trace": "t5", "barnabas-attempt": str(attempt)},
            "f": {"barnabas-attempt": str(attempt)},
            "g": {"barnabas-attempt": str(attempt)},
        }
        run_job(route.job, spark, **routing)
        dead = consume(servers, "dead")[-4:]
        assert [each.headers["barnabas-attempt"] for each in dead] == [str(attempt + 1)] * 4


def test_repetitions_are_left_out_and_counted(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    start_ms = 1_769_853_600_000
    settings = {
        "bootstrap_servers": servers, "source": "clicks", "target": "clicks-once",
        "by": ["header.id", "key"], "within": "10 minutes", "checkpoint": tmp_path / "checkpoint",
    }  # fmt: skip
    produce(
        servers,
        "clicks",
        [
            Given("1", "a", {"id": "x"}),
            Given("2", "a", {"id": "x"}),
            Given("3", "b", {"id": "x"}),
            Given("4", "a"),
            Given("5", None, {"id": "y"}),
        ],
    )
    run = run_job(deduplicate.job, spark, **settings)
    assert run.totals.read == 5
    assert run.totals.dropped == {"no header.id": 1, "no key": 1, "duplicate": 1}
    produce(servers, "clicks", [Given("6", "a", {"id": "x"}, start_ms + 1000), Given("7", "c", {"id": "x"})])
    run = run_job(deduplicate.job, spark, **settings)
    assert run.totals.summary() == "read 2, dropped 1 (1 duplicate), wrote 1"
    found = consume(servers, "clicks-once")
    assert sorted((each.key, each.value) for each in found) == [("a", 1), ("b", 3), ("c", 7)]
    assert {each.headers["id"] for each in found} == {"x"}
