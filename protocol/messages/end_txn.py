"""A producer commits or aborts its transaction (KIP-98).

  v1  throttling happens after the answer (KIP-219)
  v2  PRODUCER_FENCED (KIP-588)
  v3  flexible (KIP-482)
  v4  TRANSACTION_ABORTABLE (KIP-890)
  v5  the epoch is raised with each transaction (KIP-890)
"""

from __future__ import annotations

from protocol.schema import Request, Response, bool_, int16, int32, int64, string


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str  = string()
    producer_id:      int  = int64()
    producer_epoch:   int  = int16()
    committed:        bool = bool_()


class EndTxnResponse(Response, answers=EndTxnRequest):
    throttle_time_ms: int = int32()
    error_code:       int = int16()
    producer_id:      int = int64("5+", default=-1, ignorable=True)
    producer_epoch:   int = int16("5+", default=-1, ignorable=True)
