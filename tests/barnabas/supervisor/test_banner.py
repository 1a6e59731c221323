"""The table of all processes that the command prints."""

from __future__ import annotations

from barnabas.supervisor.banner import Row, banner

ROWS = [
    Row("broker 9", "h:9092", "h:8081", 11),
    Row("broker 10", "h:9093", None, 2345),
    Row("store", "127.0.0.1:7", None, 10),
]


def test_columns_are_aligned_and_the_next_commands_are_told() -> None:
    text = banner("0.1.0", "c1", ROWS, "h:8080", ["/a", "/b"], 1234, ["moved     it"])
    assert text.splitlines() == [
        "Barnabas 0.1.0 is ready, after 1.23 s: 2 brokers of cluster c1",
        "",
        "             address      http    process id",
        "  broker 9   h:9092       h:8081  11",
        "  broker 10  h:9093       -       2345",
        "  store      127.0.0.1:7  -       10",
        "",
        "  data      /a",
        "  data      /b",
        "  http      http://h:8080/metrics, of all",
        "  moved     it",
        "",
        "  try it    kcat -b h:9092 -L",
        "            barnabas cluster health --bootstrap-server h:9092",
    ]


def test_the_page_is_told() -> None:
    text = banner("0.1.0", "c1", ROWS[:1], None, ["/a"], 0, [], page="http://h:8082")
    assert text.startswith("Barnabas 0.1.0 is ready, after 0.00 s: 1 broker of cluster c1\n")
    assert "  page      http://h:8082/ui/" in text.splitlines()


def test_who_needs_a_login_is_told_so() -> None:
    last = banner("0.1.0", "c1", ROWS, None, ["/a"], 0, [], has_login=True).splitlines()[-1]
    assert last == "  try it    barnabas cluster health --bootstrap-server h:9092 --command-config FILE"
