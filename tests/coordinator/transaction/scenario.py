"""The language of `tests/scenarios/transactions/*.txt`, and its interpreter.

A scenario is commands, each followed by what it led to, indented by two spaces: responses, records, events, and the markers
that are asked for. REWRITE_SCENARIOS=1 writes what happens now; commit such a change only when you understand it.

    init a [timeout=60s] [continue]    InitProducerId of client a of the transactional id `t`; `continue` names its id and epoch
    add a orders-0 ...                 AddPartitionsToTxn, or AddOffsetsToTxn
    verify a orders-0 ...              the verify-only form, which partitions ask for
    commit a | abort a                 EndTxn
    markers complete|fenced            what became of the markers that are pending
    markers again 1                    the outcome of the markers that were asked for first comes (once more)
    overdue                            transactions that have outlived their timeout are looked for
    advance 300ms|3s|2h                virtual time
    hold | release | fail ERROR | time-out | refuse ERROR | accept     the fate of appends
    reelect | reload                   the leadership comes again to this broker; or goes, and comes back
    state                              what is stored
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.runtime.contract import CoordinatorRecord
from coordinator.transaction.events import MarkersFenced, TransactionNotStored, TransactionTimedOut
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from coordinator.transaction.records import read_transaction
from coordinator.transaction.transaction import Transaction
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from tests.coordinator.scenario import duration_ms, place
from tests.coordinator.transaction.shard_driver import TransactionDriver

NAME = "t"


class TransactionScenario:
    def __init__(self) -> None:
        self._driver = TransactionDriver()
        self._producers: dict[str, TransactionalProducer] = {}
        self._waiting: dict[int, tuple[str, str]] = {}  # waiter -> (client, request)
        self._asked: list[TransactionMarkers] = []
        self._responses_count = self._records_count = self._events_count = 0

    def perform(self, line: str) -> list[str]:
        """What the command led to."""
        name, *words = line.split()
        shown = self._request(name, words) if name in ("init", "add", "commit", "abort") else self._other(name, words)
        return [*shown, *self._responses(), *self._records(), *self._events(), *self._markers()]

    # --- commands ---

    def _request(self, name: str, words: list[str]) -> list[str]:
        client, *rest = words
        driver = self._driver
        if name == "init":
            options = dict(word.split("=") for word in rest if "=" in word)
            had = self._producers[client] if "continue" in rest else None
            driver.init(
                NAME,
                expected=None if had is None else (had.producer_id, had.producer_epoch),
                timeout_ms=duration_ms(options.get("timeout", "60s")),
            )
        elif name == "add":
            driver.add(self._producers[client], [place(word) for word in rest])
        else:
            driver.end(self._producers[client], commit=name == "commit")
        self._waiting[driver.last_waiter] = (client, name)
        return []

    def _other(self, name: str, words: list[str]) -> list[str]:
        driver = self._driver
        match name, *words:
            case "verify", client, *partitions:
                errors = driver.shard.verify_partitions(self._producers[client], [place(each) for each in partitions])
                return [f"{_text(key)} {error.name}" for key, error in errors.items()]
            case "markers", "again", number:
                asked = self._asked[int(number) - 1]
                driver.carry_out(driver.shard.on_markers_written(asked, MarkerOutcome.COMPLETE, driver.now_ms))
            case "markers", outcome:
                driver.write_markers(MarkerOutcome(outcome))
            case ("overdue",):
                driver.abort_overdue()
            case "advance", duration:
                driver.advance(duration_ms(duration))
            case ("hold",):
                driver.is_holding = True
            case ("release",):
                driver.release()
            case "fail", error:
                driver.fail(ErrorCode[error])
            case ("time-out",):
                driver.time_out()
            case "refuse", error:
                driver.refuse_with = ErrorCode[error]
            case ("accept",):
                driver.refuse_with = None
            case (("reelect" | "reload"),):
                getattr(driver, name)()
            case ("state",):
                return [f"stored: {_transaction(driver.stored(NAME))}"]
            case other:
                raise AssertionError(f"no such command: {other}")
        return []

    # --- what happened ---

    def _responses(self) -> list[str]:
        new = self._driver.responses[self._responses_count :]
        self._responses_count += len(new)
        return [self._response(waiter, response) for waiter, response in new]

    def _response(self, waiter: int, response: Any) -> str:
        client, request = self._waiting.pop(waiter)
        error = ErrorCode(response.error_code)
        text = f"- {request} {client}: {error.name}"
        if request == "init" and error is ErrorCode.NONE:
            self._producers[client] = TransactionalProducer(NAME, response.producer_id, response.producer_epoch)
            text += f" producer {response.producer_id} epoch {response.producer_epoch}"
        return text

    def _records(self) -> list[str]:
        records = [record for batch in self._driver.log for record in batch.records]
        new = records[self._records_count :]
        self._records_count = len(records)
        return [f"log: {_record(record)}" for record in new]

    def _events(self) -> list[str]:
        new = self._driver.events[self._events_count :]
        self._events_count += len(new)
        return [text for event in new if (text := _event(event)) is not None]

    def _markers(self) -> list[str]:
        """Those that are pending and were not shown yet."""
        new = [each for each in self._driver.markers if not any(each is known for known in self._asked)]
        self._asked += new
        return [
            f"markers: {'commit' if each.is_commit else 'abort'} producer {each.producer_id} epoch {each.producer_epoch} "
            f"to {' '.join(map(_text, each.partitions))}, coordinator epoch {each.coordinator_epoch}"
            for each in new
        ]


def _text(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _record(record: CoordinatorRecord) -> str:
    return "removed" if record.value is None else _transaction(read_transaction(record.value))


def _transaction(stored: Transaction) -> str:
    partitions = f" [{' '.join(_text(key) for key in sorted(stored.partitions))}]" if stored.partitions else ""
    return f"{stored.state.value} producer {stored.producer_id} epoch {stored.producer_epoch}{partitions}"


def _event(event: Any) -> str | None:
    match event:
        case TransactionTimedOut():
            return f"timed out after {event.timeout_ms} ms"
        case TransactionNotStored():
            return f"not stored: {event.what}, {event.error.name}"
        case MarkersFenced():
            return "markers fenced"
        case _:
            return None


def run(text: str) -> str:
    """The scenario with what happens now: equal to `text` when nothing changed."""
    scenario = TransactionScenario()
    lines = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += ["  " + shown for shown in scenario.perform(line)]
    return "\n".join(lines) + "\n"


def scenario_files() -> list[Path]:
    return sorted((Path(__file__).parents[2] / "scenarios" / "transactions").glob("*.txt"))
