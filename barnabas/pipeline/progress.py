"""What a query reports of its batches, as counts, a line for people and a page in Prometheus form. Pure.

Rules: pure; input is the JSON text of Spark's StreamingQueryProgress. Records read are those that the job observed
(`barnabas.pipeline.records.keep`), otherwise the input rows of the sources.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.spark.texts import bar

READ_COUNTS = "barnabas_read"
WRITE_COUNTS = "barnabas_written"
"""The names under which a job observes its counts (`barnabas.pipeline.records`)."""
DROPPED = "dropped: "
"""What the names of observed metrics begin with that count dropped records; the rest is the reason."""
SEE_MORE = "SPARK_LOG_LEVEL=ERROR shows Spark's own messages"
_CAUSE, _FRAMES = "Caused by: ", ("at ", "...", "JVM stacktrace")
_OWN_ERROR = re.compile(r"barnabas\.[\w.]+: ")
LATE = "late: after the watermark"
DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Batch:
    """The report of one batch. `lag` is None when the source does not know the end of its topics."""

    number: int
    read: int
    written: int
    duration_ms: int
    lag: int | None
    dropped: Mapping[str, int]
    other: Mapping[str, int]
    state_rows: int
    reached: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The offset behind the batch, by topic and partition, as far as the source reports it."""

    @property
    def records_per_s(self) -> float:
        return self.read * 1000 / self.duration_ms if self.duration_ms else 0.0


def parse_batch(text: str) -> Batch:
    """Return the report in the JSON text of a StreamingQueryProgress."""
    progress = json.loads(text)
    observed = progress.get("observedMetrics") or {}
    read_counts = observed.get(READ_COUNTS) or {}
    sources, operators = progress.get("sources") or [], progress.get("stateOperators") or []
    dropped = {name.removeprefix(DROPPED): n for name, n in read_counts.items() if name.startswith(DROPPED)}
    dropped[LATE] = sum(each.get("numRowsDroppedByWatermark", 0) for each in operators)
    dropped[DUPLICATE] = sum((each.get("customMetrics") or {}).get("numDroppedDuplicateRows", 0) for each in operators)
    written = (observed.get(WRITE_COUNTS) or {}).get("written")
    return Batch(
        number=progress.get("batchId", 0),
        read=read_counts.get("read", sum(each.get("numInputRows", 0) for each in sources)),
        written=(progress.get("sink") or {}).get("numOutputRows", 0) if written is None else written,
        duration_ms=(progress.get("durationMs") or {}).get("triggerExecution", 0),
        lag=_lag(sources),
        dropped={reason: n for reason, n in dropped.items() if n},
        other={name: n for name, n in read_counts.items() if name != "read" and not name.startswith(DROPPED)},
        state_rows=sum(each.get("numRowsTotal", 0) for each in operators),
        reached={key: offset for each in sources for key, offset in (_offsets(each.get("endOffset")) or {}).items()},
    )


def _lag(sources: list[dict[str, Any]]) -> int | None:
    """Return how many offsets of all partitions come after the end of the batch."""
    behind = [_behind(source.get("endOffset"), source.get("latestOffset")) for source in sources]
    known = [each for each in behind if each is not None]
    return sum(known) if known and len(known) == len(behind) else None


def _behind(end: Any, latest: Any) -> int | None:
    ends, latests = _offsets(end), _offsets(latest)
    if ends is None or latests is None:
        return None
    return sum(max(0, offset - ends.get(key, 0)) for key, offset in latests.items())


def _offsets(value: Any) -> dict[tuple[str, int], int] | None:
    """Return the offsets by topic and partition, when a source reports them as Spark's connector does; the Python source also
    reports the ids of topics, which are left out."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return None
    found = {
        (topic, int(part)): offset for topic, parts in value.items() for part, offset in parts.items() if part.isdigit()
    }
    return found if all(isinstance(offset, int) for offset in found.values()) else None


@dataclass
class Totals:
    """The counts of a job's run, over all of its batches."""

    batches: int = 0
    read: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    last: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Add a batch. Reports of no work at all only replace the last one."""
        self.last = batch
        self.batches += batch.read > 0 or batch.written > 0
        self.read += batch.read
        if batch.written > 0:  # -1: the sink does not know, and the job adds what it wrote by itself
            self.written += batch.written
        self.dropped.update(batch.dropped)
        self.other.update(batch.other)

    def summary(self) -> str:
        """Return the counts as one line."""
        dropped = sum(self.dropped.values())
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.dropped.items()))
        other = "".join(f", {n} {name}" for name, n in sorted(self.other.items()))
        return f"read {self.read}, dropped {dropped}{f' ({reasons})' if reasons else ''}, wrote {self.written}{other}"


def progress_line(totals: Totals, *, is_bounded: bool, with_bar: bool) -> str:
    """Return the state of a running job as one line."""
    batch = totals.last
    if batch is None:
        return totals.summary() if totals.read else "waiting for the first batch"
    lag = "unknown" if batch.lag is None else str(batch.lag)
    line = (
        f"batch {batch.number}: {batch.records_per_s:.0f} records/s, lag {lag}, "
        f"{batch.duration_ms / 1000:.1f} s; {totals.summary()}"
    )
    if not (is_bounded and with_bar) or batch.lag is None:
        return line
    return f"{bar(totals.read, totals.read + batch.lag)} {line}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a Spark job that runs now: a step with so many tasks, some of them done."""

    number: int
    tasks: int
    done: int


def stages_line(stages: Sequence[Stage], elapsed_s: float, *, with_bar: bool) -> str:
    """Return what Spark works at as one line, `elapsed_s` after the job's start."""
    if not stages:
        return f"Spark plans the next step; {elapsed_s:.0f} s"
    done, tasks = sum(each.done for each in stages), sum(each.tasks for each in stages)
    steps = ", ".join(f"stage {each.number}: {each.done} of {each.tasks} tasks done" for each in stages)
    line = f"{steps}; {elapsed_s:.0f} s"
    return f"{bar(done, tasks)} {line}" if with_bar else line


def prometheus_page(job: str, totals: Totals) -> str:
    """Return the job's metrics in the text form of Prometheus."""
    page: list[str] = []

    def add(name: str, kind: str, doc: str, samples: Mapping[str, float]) -> None:
        page.append(f"# HELP barnabas_pipeline_{name} {doc}\n# TYPE barnabas_pipeline_{name} {kind}\n")
        page.extend(f'barnabas_pipeline_{name}{{job="{job}"{labels}}} {n}\n' for labels, n in samples.items())

    add("batches_total", "counter", "Batches with records.", {"": totals.batches})
    add("records_read_total", "counter", "Records read.", {"": totals.read})
    add("records_written_total", "counter", "Records written.", {"": totals.written})
    dropped = {f',reason="{_label(reason)}"': n for reason, n in sorted(totals.dropped.items())}
    add("records_dropped_total", "counter", "Records dropped, by reason.", dropped)
    if totals.last is not None:
        add("batch_duration_seconds", "gauge", "Duration of the last batch.", {"": totals.last.duration_ms / 1000})
        add("batch_records_per_second", "gauge", "Rate of the last batch.", {"": round(totals.last.records_per_s, 3)})
        add("state_rows", "gauge", "Rows of state.", {"": totals.last.state_rows})
        if totals.last.lag is not None:
            add("lag_records", "gauge", "Offsets after the end of the last batch.", {"": totals.last.lag})
    return "".join(page)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def failure_reason(text: str) -> str:
    """Return the one line of a Spark error that says why: the exception of its last Python traceback, else its deepest
    cause, else its first line. An error that is not Barnabas' own is followed by how to see what Spark says of it."""
    reason = _reason(text)
    own = _OWN_ERROR.match(reason)
    return reason.removeprefix(own[0]) if own else f"{reason} ({SEE_MORE})"


def _reason(text: str) -> str:
    raised = _raised_in_python(text.splitlines())
    if raised is not None:
        return raised
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(_FRAMES)]
    causes = [number for number, line in enumerate(lines) if line.startswith(_CAUSE)]
    if causes:
        message = itertools.takewhile(lambda line: not line.startswith(_FRAMES), lines[causes[-1] :])
        return " ".join(message).removeprefix(_CAUSE)
    return said[0] if said else "it failed without a message"


def _raised_in_python(lines: list[str]) -> str | None:
    """Return the line behind the last traceback's frames, None without a traceback."""
    reason = None
    is_inside = False
    for line in lines:
        if line.rstrip().endswith("Traceback (most recent call last):"):
            is_inside = True
        elif is_inside and line.strip() and not line.startswith((" ", "\t")):
            reason, is_inside = line.strip(), False
    return reason
