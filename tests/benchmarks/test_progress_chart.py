"""A chart is well-formed, has a bar for each batch, and nothing outside of its panels."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from benchmarks.progress_chart import WIDTH, chart, points_of


def progress(second: int, rows: int, *, state: int = 0) -> str:
    steps = {"latestOffset": 5, "queryPlanning": 10, "walCommit": 20, "commitOffsets": 15, "addBatch": 150}
    return json.dumps(
        {
            "batchId": second,
            "timestamp": f"2026-01-31T10:00:{second:02}.000Z",
            "durationMs": {**steps, "triggerExecution": 200},
            "sources": [{"numInputRows": rows, "endOffset": None, "latestOffset": None}],
            "stateOperators": [{"numRowsTotal": state}],
            "sink": {"numOutputRows": rows},
        }
    )


def test_points_of_a_query() -> None:
    events = [(progress(3, 100, state=7), 40), (progress(4, 0), 40), (progress(5, 300), None)]
    first, second = points_of(events)
    assert first == (0.2, 500.0, 40, {"reading offsets": 15, "logging offsets": 35, "processing records": 150}, 7)
    assert (second.seconds, second.records_per_s, second.lag) == (2.2, 1500.0, 0)


def test_a_chart_has_a_bar_for_each_batch() -> None:
    points = points_of([(progress(second, 100 * second + 1), second) for second in range(20)])
    for with_state, panels in ((False, 3), (True, 4)):
        root = ElementTree.fromstring(chart("a < b & c", points, with_state=with_state))
        name = re.compile(r"\{.*\}")
        kinds = [name.sub("", each.tag) for each in root]
        legend, background = 3, 1
        assert kinds.count("rect") == len(points) * (1 + 3) + legend + background
        assert kinds.count("polyline") == panels - 2
        height = float(root.attrib["height"])
        for each in root.iter():
            if "y" in each.attrib:
                assert -1 <= float(each.attrib["y"]) <= height
            if "x" in each.attrib:
                assert -1 <= float(each.attrib["x"]) <= WIDTH
