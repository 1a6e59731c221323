"""`GET /api/history`: the last hour of a topic, of a group, or of the cluster, as lines to be drawn."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from runtime.slices import Slices
from web.errors import HttpProblem
from web.history.history import Measure, plain
from web.history.reading import Plot
from web.history.room import HistoryRoom
from web.history.series import downsampled
from web.requests import Cluster, Parts

POINTS_MAX = 400
OF_TOPICS = (Measure.RECORDS,)
OF_CLUSTER = (Measure.RECORDS, Measure.BYTES, Measure.SIZE)
"""Sizes are the cluster's: DescribeLogDirs wants DESCRIBE on it."""

router = APIRouter()


class HistoryLine(BaseModel):
    """`measure` is records, bytes, size, lag or latency, `unit` that of the values. `name` is a topic, or a broker and a
    request; empty for the whole. A value is null where nothing is known."""

    measure: str
    unit: str
    name: str
    values: list[float | None]


class HistoryAnswer(BaseModel):
    """`times_ms` are the times of the values, in Unix time; a gap between two that is longer than some `interval_ms` is one in
    the plot. `problem` says why there is nothing new, and is empty while there is. `left_out` is how many series or groups had
    no room."""

    interval_ms: int
    times_ms: list[int]
    lines: list[HistoryLine]
    problem: str
    left_out: int


@router.get("/api/history")
async def history(
    parts: Parts,
    cluster: Cluster,
    topic: Annotated[str, Query(description="the topic whose plot it is")] = "",
    group: Annotated[str, Query(description="the group whose plot it is")] = "",
    points: Annotated[int, Query(ge=1, le=POINTS_MAX, description="at most so many values of each line")] = POINTS_MAX,
) -> HistoryAnswer:
    """Return the last hour: rates and sizes of a topic, the lag of a group by topic, or what the whole cluster does. Of topics
    that the user may not describe nothing is in any sum."""
    if topic and group:
        raise HttpProblem(422, "name a topic or a group, not both", code="INVALID")
    room = parts.history
    if topic:
        await room.visibility.require_topic(cluster, topic)
        has_cluster = (await room.visibility.view(cluster)).has_cluster
        plot = room.reading.topic(topic, OF_CLUSTER if has_cluster else OF_TOPICS)
    elif group:
        plot = room.reading.group(group, await room.visibility.topics_of_group(cluster, group))
    else:
        view = await room.visibility.view(cluster)
        slices = Slices(parts.surroundings.clock)
        plot = await room.reading.sums(view.topics, OF_CLUSTER if view.has_cluster else OF_TOPICS, slices)
        if view.has_cluster:
            plot = Plot(plot.times_ms, plot.lines + room.reading.latencies().lines)
    clock = parts.surroundings.clock
    return _answer(room, plot, points, clock.wall_ms() - clock.monotonic_ms())


def _answer(room: HistoryRoom, plot: Plot, points: int, epoch_ms: int) -> HistoryAnswer:
    """`epoch_ms` is the Unix time at which the clock of the plot began."""
    lines = []
    for line in plot.lines:
        _, values = downsampled(plot.times_ms, line.values, points)
        name = line.measure.name.lower()
        lines.append(HistoryLine(measure=name, unit=line.measure.value, name=line.name, values=plain(values)))
    times_ms, _ = downsampled(plot.times_ms, [0.0] * len(plot.times_ms), points)
    return HistoryAnswer(
        interval_ms=room.history.interval_ms,
        times_ms=[each + epoch_ms for each in times_ms],
        lines=lines,
        problem=room.sampler.problem if room.is_enabled else "barnabas.web.history.enable=false: nothing is sampled",
        left_out=room.sampler.groups_left_out + sum(room.history.left_out(each) for each in Measure),
    )
