"""Asks brokers what the exactly-once write needs of them: transactions and decisions.

Rules: implements `exactly_once.Transactions`; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.spark.writing.decisions import Decisions
from barnabas.spark.writing.exactly_once import Decision, OpenTransaction, QueryState, Registration
from barnabas.spark.writing.transaction_calls import TransactionCalls
from barnabas.spark.writing.write_options import WriteOptions
from client.blocking.cluster_client import ClusterClient


class BrokerTransactions:
    """`exactly_once.Transactions`, asked of brokers."""

    def __init__(self, client: ClusterClient, options: WriteOptions) -> None:
        self._decisions = Decisions(client, options)
        self._calls = TransactionCalls(client, options.transaction_timeout_ms)

    def state(self, query: str) -> QueryState:
        return self._decisions.state(query)

    def register(self, query: str, run: str, before: Registration | None) -> None:
        self._decisions.register(query, run, before)

    def decide(self, query: str, decision: Decision) -> None:
        self._decisions.add(query, decision)

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        self._calls.end(transaction, commits=commits)

    def open_ids(self, prefix: str) -> Iterable[str]:
        return self._calls.open_ids(prefix)

    def fence(self, transactional_id: str) -> None:
        self._calls.begin(transactional_id)
