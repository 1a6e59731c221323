"""What a job is, and its process: options, preflight, Spark, progress, a clean stop, the counts at its end.

Exit codes: 0 the job ended, or SIGINT or SIGTERM stopped it; 1 it failed, and the last line says why; 2 an option is invalid.
Rules: options are checked and brokers asked before Spark starts. A batch that a stop interrupts is done again at the next
start.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NoReturn

import click

from barnabas.pipeline.options import (
    AVAILABLE_NOW,
    COMMON_OPTIONS,
    STREAM_OPTIONS,
    InvalidOption,
    Options,
    settings_of,
)
from barnabas.pipeline.preflight import NotReady, check
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
from barnabas.pipeline.records import connection
from barnabas.pipeline.session import Unavailable, require_spark, spark_session
from barnabas.spark.command_line import HELP_OPTIONS, SPARK, StatusLine, SystemClock
from barnabas.spark.command_line import run as run_command

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOP_CHECK_S = 0.5  # how soon a signal is noticed while a batch runs
LINE_INTERVAL_S = 5.0  # between progress lines that are no terminal's
TERMINAL_INTERVAL_S = 0.5  # between looks at the tasks of a job on a terminal
DATA_LOSS_OPTION = "Set option failOnDataLoss to false"
"""What the source advises, and what a job has a flag for."""


class JobFailed(RuntimeError):
    """The job cannot go on; the text is the reason."""


@dataclass
class Run:
    """What a running job shares with its process: whether to stop, and the counts so far."""

    name: str
    is_bounded: bool = False
    is_quiet: bool = False
    is_report: bool = False
    totals: Totals = field(default_factory=Totals)
    stop: threading.Event = field(default_factory=threading.Event)
    _batch_s: float = -math.inf
    _printed_s: float = -math.inf
    _status: StatusLine = field(default_factory=lambda: StatusLine(SystemClock()))

    def show(self) -> None:
        """Print how far the batches have come: in place on a terminal, elsewhere not more often than LINE_INTERVAL_S."""
        now_s, is_terminal = time.monotonic(), sys.stderr.isatty()  # noqa: TID251  the user's process, not the broker
        if is_terminal or now_s - self._batch_s >= LINE_INTERVAL_S:
            self._batch_s = self._printed_s = now_s
            self.announce(progress_line(self.totals, is_bounded=self.is_bounded, with_bar=is_terminal))

    def show_work(self, line: str) -> None:
        """Print what Spark works at: a line of batches that is not older than LINE_INTERVAL_S tells more."""
        now_s = time.monotonic()  # noqa: TID251
        if (self.is_report and sys.stderr.isatty()) or now_s - self._printed_s >= LINE_INTERVAL_S:
            self._printed_s = now_s
            self.announce(line)

    def announce(self, line: str) -> None:
        """Print a line of progress, however short ago the last one was."""
        if self.is_quiet:
            return
        if self._status.is_terminal:
            self._status.tell(line)
        else:
            self.say(line)

    def report(self, text: str) -> None:
        """Print a part of the job's report to standard output, in place of the progress line if there is one."""
        self._status.clear()
        print(text, flush=True)

    def say(self, text: str) -> None:
        """Print a line of the job's own, in place of the progress line if there is one."""
        self._status.say(f"{self.name}: {text}")


@dataclass(frozen=True)
class Job:
    """A job. `begin` starts its query, or does all of its work and returns None.

    Called with a session and settings by their names (`topics="a,b"`, `max_offsets_per_trigger=1000`) it starts the query
    in the caller's process, without preflight or progress.
    """

    name: str
    description: str
    own_options: Sequence[click.Option]
    topics: Callable[[Options], Iterable[str]]
    """Return the topics that are read, which must exist."""
    begin: Callable[[SparkSession, Options, Run], StreamingQuery | None]
    targets: Callable[[Options], Iterable[str]] = lambda _options: ()
    """Return the topics that are written, which must exist unless the brokers create topics."""
    is_stream: bool = True
    is_report: bool = False
    """Whether the job prints a report and ends: it never waits."""
    needs_brokers: Callable[[Options], bool] = lambda _options: True
    """Return whether brokers are asked before Spark starts."""
    check_more: Callable[[Options], None] = lambda _options: None
    """Raises NotReady or JobFailed for what else is missing before Spark starts."""
    check: Callable[[Options], None] = lambda _options: None
    """Raises InvalidOption for options that do not go together."""

    def __call__(self, spark: SparkSession, **settings: Any) -> StreamingQuery | None:
        """Start the job's query, or do all of its work. Raises InvalidOption.

        Before PySpark 4.2 a query with the trigger available-now may end before all is read; `run` does not.
        """
        options = self.options(**settings)
        return self.begin(spark, options, Run(self.name))

    def run(self, spark: SparkSession, **settings: Any) -> Totals:
        """Run the job in the caller's process until nothing is left to do, and return its counts.

        Raises InvalidOption, JobFailed, and PySparkException when its query failed.
        """
        bounded = {"trigger": AVAILABLE_NOW} if any(each.name == "trigger" for each in self.command().params) else {}
        options = self.options(**bounded, **settings)
        current = Run(self.name, is_bounded=True, is_quiet=True)
        run_to_end(self, options, current, spark)
        return current.totals

    def command(self) -> click.Command:
        """Return the job as a command."""
        return click.Command(
            self.name,
            params=[*COMMON_OPTIONS, *(STREAM_OPTIONS if self.is_stream else ()), *self.own_options],
            callback=lambda **values: run(self, self._checked(values)),
            help=self.description,
            short_help=self.description,
            epilog=SPARK.sentence,
            context_settings=HELP_OPTIONS,
        )

    def parse(self, arguments: Sequence[str]) -> Options:
        """Return the options of a command line. Raises click.UsageError."""
        return self._checked(self.command().make_context(f"barnabas pipeline {self.name}", list(arguments)).params)

    def options(self, **settings: Any) -> Options:
        """Return the options of a call. Raises InvalidOption."""
        command = self.command()
        try:
            defaults = settings_of(command, settings, self.name)
            return self._checked(command.make_context(self.name, [], default_map=defaults).params)
        except click.UsageError as error:
            raise InvalidOption(f"{self.name}: {error.format_message()}") from None

    def _checked(self, values: Mapping[str, Any]) -> Options:
        """Raises click.UsageError."""
        options = Options(**values)
        try:
            self.check(options)
        except InvalidOption as error:
            raise click.UsageError(str(error), click.get_current_context(silent=True)) from None
        return options

    def main(self, arguments: Sequence[str] | None = None) -> NoReturn:
        """Be the job's process."""
        sys.exit(
            run_command(
                self.command(), sys.argv[1:] if arguments is None else arguments, f"barnabas pipeline {self.name}"
            )
        )


def run(job: Job, options: Options) -> int:
    """Run a job until its query ends or a signal stops it. Returns the exit code."""
    current = Run(
        job.name,
        is_bounded=getattr(options, "trigger", AVAILABLE_NOW) == AVAILABLE_NOW,
        is_quiet=options.quiet,
        is_report=job.is_report,
    )
    previous = _stop_at_signals(current)
    server: ThreadingHTTPServer | None = None
    try:
        require_spark()
        if job.needs_brokers(options):
            check(options, job.topics(options), job.targets(options))
            job.check_more(options)
        if options.metrics_port is not None:
            server = serve_metrics(current, options.metrics_port)
            current.say(f"metrics at http://127.0.0.1:{server.server_port}/metrics")
        _run_in_session(job, options, current)
    except (Unavailable, NotReady, JobFailed) as error:
        return _failed(current, str(error))
    except OSError as error:
        return _failed(current, str(error))
    except KeyboardInterrupt:
        current.say(f"stopped; {current.totals.summary()}")
        return 0
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()
        for number, handler in previous.items():
            signal.signal(number, handler)
    current.say(f"{'stopped' if current.stop.is_set() else 'done'}; {current.totals.summary()}")
    return 0


def _failed(current: Run, reason: str) -> int:
    current.say(reason)
    return 1


def _stop_at_signals(current: Run) -> dict[int, Any]:
    """Let SIGINT and SIGTERM stop the run. One that comes while Spark starts, or a second one, ends the process immediately."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        if current.stop.is_set():
            raise KeyboardInterrupt
        current.stop.set()

    return {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}


def _run_in_session(job: Job, options: Options, current: Run) -> None:
    """Raises JobFailed, Unavailable."""
    with_avro = getattr(options, "value_format", None) == "avro"
    current.announce(
        "starting Spark, which fetches jars the first time" if options.connector or with_avro else "starting Spark"
    )
    spark = spark_session(job.name, with_connector=options.connector, with_avro=with_avro)
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        if not current.stop.is_set():
            with watching_tasks(spark, current):
                run_to_end(job, options, current, spark)
    except InvalidOption as error:
        raise JobFailed(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise JobFailed(with_flag(failure_reason(str(error)))) from None
    finally:
        spark.stop()


def with_flag(reason: str) -> str:
    """Return a reason that names the flag of a job where it names the option of a source that the flag sets."""
    ours = reason.replace(DATA_LOSS_OPTION, "Use --tolerate-loss")
    return f"{ours} (--tolerate-loss does that)" if "failOnDataLoss" in ours else ours


@contextlib.contextmanager
def watching_tasks(spark: SparkSession, current: Run) -> Iterator[None]:
    """Show from a thread what Spark works at, while the job's work goes on. A job that waits for its next batch or round shows
    nothing."""
    over = threading.Event()
    begun_s = time.monotonic()  # noqa: TID251  the user's process, not the broker
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not over.wait(TERMINAL_INTERVAL_S if sys.stderr.isatty() else LINE_INTERVAL_S):
            show_tasks(tracker, current, time.monotonic() - begun_s)  # noqa: TID251

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def show_tasks(tracker: Any, current: Run, elapsed_s: float) -> None:
    """Print the tasks of the stages that run now. `tracker` is Spark's StatusTracker."""
    found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    stages = [Stage(each.stageId, each.numTasks, each.numCompletedTasks) for each in found if each is not None]
    if stages or current.is_report:
        current.show_work(stages_line(stages, elapsed_s, with_bar=sys.stderr.isatty()))


def run_to_end(job: Job, options: Options, current: Run, spark: SparkSession) -> None:
    """Start the job's query, and start it again until a bounded run finds nothing more.

    On Spark 4.0 the trigger available-now reads a Python source in one batch that its own limit may end early.
    """
    listener = _listener(current, options)
    spark.streams.addListener(listener)
    try:
        while True:
            read_before = current.totals.read
            listener.ended.clear()
            query = job.begin(spark, options, current)
            if query is None:
                return
            wait_for(query, current)
            listener.ended.wait(10)  # events come after the query's end
            if (
                not current.is_bounded
                or options.connector
                or current.stop.is_set()
                or current.totals.read == read_before
            ):
                return
    finally:
        spark.streams.removeListener(listener)


def _with_lag(batch: Batch, options: Options) -> Batch:
    """Return the batch with its lag, for which brokers are asked when the source does not know it."""
    if batch.lag is not None or not batch.reached or options.connector:
        return batch
    from barnabas.spark.client.groups import records_behind  # noqa: PLC0415  needs the extra

    return replace(batch, lag=records_behind(connection(options), batch.reached))


def _listener(current: Run, options: Options) -> Any:
    """Return a StreamingQueryListener that adds what it hears of to the run's counts; `ended` is set when the query is over."""
    from pyspark.sql.streaming.listener import StreamingQueryListener  # noqa: PLC0415

    class ProgressListener(StreamingQueryListener):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.ended = threading.Event()

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802, RUF100  Spark's names
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802, RUF100
            current.totals.add(_with_lag(parse_batch(event.progress.json), options))
            current.show()

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802, RUF100
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802, RUF100
            self.ended.set()

    return ProgressListener()


def wait_for(query: StreamingQuery, current: Run) -> None:
    """Return when the query has ended, by itself or through the run's stop. Raises PySparkException when it failed."""
    while not current.stop.is_set():
        if query.awaitTermination(STOP_CHECK_S):
            return
    query.stop()


def serve_metrics(current: Run, port: int) -> ThreadingHTTPServer:
    """Serve the run's metrics on 127.0.0.1 from a thread. Raises JobFailed."""

    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802, RUF100  the name that http.server calls
            is_known = self.path == "/metrics"
            page = prometheus_page(current.name, current.totals).encode() if is_known else b"see /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  no access log
            pass

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), MetricsHandler)
    except OSError as error:
        raise JobFailed(f"--metrics-port {port}: {error.strerror}") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
