"""What holds of a broker process whatever its clients do: its memory is bounded, and others are served."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from tests.robustness.process import BrokerProcess, MiB
from tests.robustness.wire import answers_within_ms

MOST_BYTES = 165 * MiB  # 150 on Python 3.11, 161 on 3.14, whose objects are larger
# What a good client waits at most while others misbehave: a decoder's or a handler's longest turn of the loop.
GOOD_MS = 3_000


@contextlib.contextmanager
def bounded(
    broker: BrokerProcess, served_within_ms: Callable[[BrokerProcess], float] = answers_within_ms
) -> Iterator[None]:
    """Checks memory, and that others are served, while and after the body runs. `served_within_ms` is what a good client
    does; it returns how long that took."""
    stop, slowest_ms = threading.Event(), [0.0]
    errors: list[BaseException] = []

    def behave() -> None:
        try:
            while not stop.is_set():
                slowest_ms[0] = max(slowest_ms[0], served_within_ms(broker))
                stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    thread = threading.Thread(target=behave, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    if errors:
        raise errors[0]
    served_within_ms(broker)
    assert broker.peak_rss_bytes() < MOST_BYTES, f"{broker.peak_rss_bytes() / MiB:.0f} MiB"
    assert slowest_ms[0] < GOOD_MS, f"a good client waited for {slowest_ms[0]:.0f} ms"
