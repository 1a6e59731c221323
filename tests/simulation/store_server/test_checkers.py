"""The checkers of the store server, each shown what it must complain about and what it must let pass."""

from __future__ import annotations

from tests.simulation.store_server.checkers.registers import MISSING, RegisterChecker
from tests.simulation.store_server.checkers.sessions import SessionChecker
from tests.simulation.store_server.checkers.watches import WatchChecker

PATH = "/a"


class TestRegisters:
    def setup_method(self) -> None:
        self.reports: list[str] = []
        self.checker = RegisterChecker(self.reports.append)

    def seen(self, value: bytes) -> list[str]:
        self.checker.read(PATH, value, "reader")
        return self.reports

    def test_what_was_acknowledged_is_there(self) -> None:
        assert not self.seen(MISSING)
        self.checker.writing(PATH, b"1")
        self.checker.acknowledged(PATH, b"1")
        assert not self.seen(b"1")
        assert self.seen(MISSING)

    def test_what_is_undecided_may_be_there_until_somebody_looks(self) -> None:
        self.checker.writing(PATH, b"1")
        self.checker.acknowledged(PATH, b"1")
        self.checker.writing(PATH, b"2")
        assert not self.seen(b"1")
        assert "may be [b'1']" in self.seen(b"2")[0]

    def test_of_a_pipeline_the_last_acknowledged_counts(self) -> None:
        for value in (b"1", b"2", b"3"):
            self.checker.writing(PATH, value)
        self.checker.acknowledged(PATH, b"2")
        assert self.seen(b"1")
        assert len(self.seen(b"3")) == 1

    def test_what_was_refused_or_never_written_is_not_there(self) -> None:
        self.checker.writing(PATH, b"1")
        self.checker.refused(PATH, b"1")
        assert len(self.seen(b"1")) == 1
        assert len(self.seen(b"?")) == 2


def test_a_reply_that_shows_a_change_comes_behind_its_event() -> None:
    reports: list[str] = []
    checker = WatchChecker(reports.append, "client")
    checker.replied(PATH, 7)
    checker.was_set(PATH, 7)
    checker.replied(PATH, 7)
    checker.fired(PATH)
    checker.replied(PATH, 8)
    checker.was_set(PATH, 8)
    checker.forget()
    checker.replied(PATH, 9)
    assert not reports
    checker.was_set(PATH, 9)
    checker.replied(PATH, None)
    assert "was shown /a of None" in reports[0]


def test_a_session_lasts_its_timeout_and_its_ephemeral_nodes_as_long() -> None:
    reports: list[str] = []
    now_s = 0.0
    checker = SessionChecker(reports.append, lambda: now_s, "client", 2.0)
    checker.began()
    checker.answered(1.0)
    checker.ephemeral_made(PATH)
    checker.ephemeral_read(PATH, is_there=True)
    now_s = 3.0
    checker.expired()
    checker.began()
    checker.ephemeral_read(PATH, is_there=False)
    checker.answered(3.0)
    checker.ephemeral_made(PATH)
    checker.ephemeral_going(PATH)
    checker.ephemeral_read(PATH, is_there=False)
    assert not reports
    checker.ephemeral_made(PATH)
    checker.ephemeral_read(PATH, is_there=False)
    now_s = 4.9
    checker.expired()
    assert [report[:20] for report in reports] == ["client has lost /a, ", "the session of clien"]
