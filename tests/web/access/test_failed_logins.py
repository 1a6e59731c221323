"""How often an address may fail."""

from __future__ import annotations

from web.access.failed_logins import FailedLogins


def test_an_address_waits_after_its_failures() -> None:
    some = FailedLogins(limit=2, window_ms=100)
    some.failed("10.0.0.1", 0)
    assert some.wait_ms("10.0.0.1", 1) == 0
    some.failed("10.0.0.1", 10)
    assert (some.wait_ms("10.0.0.1", 20), some.wait_ms("10.0.0.2", 20)) == (80, 0)
    assert (some.wait_ms("10.0.0.1", 99), some.wait_ms("10.0.0.1", 100)) == (1, 0)
    some.failed("10.0.0.1", 100)
    assert some.wait_ms("10.0.0.1", 101) == 9


def test_a_machine_does_not_change_its_address_to_fail_again() -> None:
    some = FailedLogins(limit=1, window_ms=100)
    some.failed("2001:db8::1", 0)
    some.failed("::ffff:10.0.0.1", 0)
    waits = [some.wait_ms(each, 0) for each in ("2001:db8::ffff", "2001:db8:0:1::1", "10.0.0.1", "no address")]
    assert waits == [100, 0, 100, 0]


def test_addresses_are_bounded() -> None:
    some = FailedLogins(limit=1, window_ms=100, addresses=2)
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"):
        some.failed(address, 0)
    assert len(some) == 2
    assert [some.wait_ms(f"10.0.0.{number}", 0) for number in (1, 2, 3)] == [100, 0, 100]
