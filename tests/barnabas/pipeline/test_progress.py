from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.pipeline.progress import (
    Batch,
    Stage,
    Totals,
    failure_reason,
    parse_batch,
    progress_line,
    prometheus_page,
    stages_line,
)
from barnabas.spark.texts import bar

REPORT: dict[str, Any] = {
    "batchId": 4,
    "durationMs": {"triggerExecution": 500},
    "sources": [
        {
            "numInputRows": 120,
            "endOffset": {"orders": {"0": 50, "1": 70}},
            "latestOffset": {"orders": {"0": 60, "1": 70, "2": 5}},
        }
    ],
    "sink": {"numOutputRows": -1},
    "stateOperators": [
        {"numRowsDroppedByWatermark": 3, "numRowsTotal": 9, "customMetrics": {"numDroppedDuplicateRows": 2}}
    ],
    "observedMetrics": {
        "barnabas_read": {"read": 100, "dropped: no key": 7, "dropped: no time": 0, "undecoded": 4},
        "barnabas_written": {"written": 90},
    },
}


def test_a_report_is_read_with_what_the_job_observed() -> None:
    assert parse_batch(json.dumps(REPORT)) == Batch(
        number=4,
        read=100,
        written=90,
        duration_ms=500,
        lag=15,
        dropped={"no key": 7, "late: after the watermark": 3, "duplicate": 2},
        other={"undecoded": 4},
        state_rows=9,
        reached={("orders", 0): 50, ("orders", 1): 70},
    )


def test_a_report_without_observations_counts_what_spark_counts() -> None:
    batch = parse_batch(
        json.dumps(REPORT | {"observedMetrics": {}, "stateOperators": [], "sink": {"numOutputRows": 8}})
    )
    assert (batch.read, batch.written, batch.dropped) == (120, 8, {})
    assert parse_batch("{}").lag is None


@pytest.mark.parametrize("end", [None, "no offsets", {"batch": 1}, {"orders": {"0": "x"}}])
def test_a_lag_that_a_source_does_not_tell_is_unknown(end: object) -> None:
    source = {**REPORT["sources"][0], "endOffset": end}
    assert parse_batch(json.dumps(REPORT | {"sources": [source]})).lag is None


def test_ids_of_topics_are_no_offsets() -> None:
    source = {"endOffset": {"orders": {"0": 5, "id": "abc"}}}
    assert parse_batch(json.dumps({"sources": [source]})).reached == {("orders", 0): 5}


def test_offsets_may_come_as_text() -> None:
    source = {name: json.dumps(value) for name, value in REPORT["sources"][0].items() if name != "numInputRows"}
    assert parse_batch(json.dumps(REPORT | {"sources": [source]})).lag == 15


def test_counts_add_up_over_batches_and_an_unknown_count_is_none() -> None:
    totals = Totals()
    for report in (REPORT, REPORT, {}, {"sink": {"numOutputRows": -1}}):
        totals.add(parse_batch(json.dumps(report)))
    assert totals.batches == 2
    assert totals.summary() == (
        "read 200, dropped 24 (4 duplicate, 6 late: after the watermark, 14 no key), wrote 180, 8 undecoded"
    )
    assert Totals().summary() == "read 0, dropped 0, wrote 0"


def test_the_line_of_bounded_work_on_a_terminal_has_a_bar() -> None:
    totals = Totals()
    assert progress_line(totals, is_bounded=True, with_bar=True) == "waiting for the first batch"
    totals.add(parse_batch(json.dumps(REPORT)))
    line = progress_line(totals, is_bounded=False, with_bar=True)
    assert line.startswith("batch 4: 200 records/s, lag 15, 0.5 s; read 100, dropped 12")
    assert progress_line(totals, is_bounded=True, with_bar=False) == line
    assert progress_line(totals, is_bounded=True, with_bar=True) == f"{bar(100, 115)} {line}"


def test_metrics_have_the_text_form_of_prometheus() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    totals = Totals()
    totals.add(parse_batch(json.dumps(REPORT)))
    totals.dropped['a "b"\\'] += 1
    samples = {
        (sample.name, sample.labels.get("reason")): sample.value
        for family in parser.text_string_to_metric_families(prometheus_page("archive", totals))
        for sample in family.samples
    }
    assert samples["barnabas_pipeline_records_read_total", None] == 100
    assert samples["barnabas_pipeline_records_written_total", None] == 90
    assert samples["barnabas_pipeline_records_dropped_total", "no key"] == 7
    assert samples["barnabas_pipeline_records_dropped_total", 'a "b"\\'] == 1
    assert samples["barnabas_pipeline_lag_records", None] == 15
    assert samples["barnabas_pipeline_batch_duration_seconds", None] == 0.5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it failed without a message"),
        ("one line", "one line"),
        (
            "[FAILED]\nTraceback (most recent call last):\n  File a\nbarnabas.spark.reading.fetching.DataLost: orders-0: gone",
            "orders-0: gone",
        ),
        (
            "first\n\tat a.b(C.java:1)\nCaused by: x.Y: middle\n\tat d\nCaused by: z.W: the cause\n\t... 5 more",
            "z.W: the cause",
        ),
        (
            "Caused by: x.Y: some data\n is lost; set the\n option\n\tat d\nJVM stacktrace:\n\tat e",
            "x.Y: some data is lost; set the option",
        ),
        ("\n  what\nmore", "what"),
        (
            "[STREAM_FAILED] failed: Traceback (most recent call last):\n  File a\n    b()\nx.Lost: gone\n SQLSTATE: 38000\n"
            "Traceback (most recent call last):\n  File c\nx.Wrong: the last one\n\nmore\nCaused by: y",
            "x.Wrong: the last one",
        ),
    ],
)
def test_the_reason_of_a_failure_is_its_deepest_cause(text: str, reason: str) -> None:
    """Spark's own words may explain more, but not more than Barnabas' own."""
    is_ours = "barnabas." in text
    assert failure_reason(text) == reason + ("" if is_ours else " (SPARK_LOG_LEVEL=ERROR shows Spark's own messages)")


def test_running_stages_are_a_line() -> None:
    stages = [Stage(4, 12, 3), Stage(5, 8, 2)]
    line = "stage 4: 3 of 12 tasks done, stage 5: 2 of 8 tasks done; 45 s"
    assert stages_line(stages, 45.4, with_bar=False) == line
    assert stages_line(stages, 45.4, with_bar=True) == f"{bar(5, 20)} {line}"
    assert stages_line([], 7, with_bar=True) == "Spark plans the next step; 7 s"
