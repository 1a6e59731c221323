"""The transactions that this broker coordinates (KIP-664).

  v1  by duration (KIP-994)
  v2  by a pattern of transactional ids (KIP-1152)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters:            list[str]  = array(string)
    producer_id_filters:      list[int]  = array(int64)
    duration_filter:          int        = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class TransactionState(Message):
    transactional_id:  str = string()
    producer_id:       int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, answers=ListTransactionsRequest):
    throttle_time_ms:      int                    = int32()
    error_code:            int                    = int16()
    unknown_state_filters: list[str]              = array(string)
    transaction_states:    list[TransactionState] = array(TransactionState)
