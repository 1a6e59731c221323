from __future__ import annotations

from barnabas.pipeline.dead_letters import dead_letter_headers_sql


def test_headers_of_a_dead_letter_replace_older_ones() -> None:
    sql = dead_letter_headers_sql("'why'")
    for name in ("reason", "source-topic", "source-partition", "source-offset", "source-timestamp"):
        assert sql.count(f"'barnabas-{name}'") == 2, "left out of the old headers, and added"
    assert sql.count("'barnabas-attempt'") == 3, "read, left out and added"
    assert "+ 1 AS STRING" in sql
