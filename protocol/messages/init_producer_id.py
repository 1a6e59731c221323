"""A producer gets its id and epoch; a transactional one fences its predecessors and ends what they left (KIP-98).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
  v3  id and epoch to be bumped (KIP-360)
  v4  PRODUCER_FENCED (KIP-588)
  v5  TRANSACTION_ABORTABLE (KIP-890)
  v6  two-phase commit (KIP-939)
"""

from __future__ import annotations

from protocol.schema import Request, Response, bool_, int16, int32, int64, string


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    transactional_id:       str | None = string(nullable="0+")
    transaction_timeout_ms: int        = int32()
    producer_id:            int        = int64("3+", default=-1)
    producer_epoch:         int        = int16("3+", default=-1)
    enable2_pc:             bool       = bool_("6+", default=False)
    keep_prepared_txn:      bool       = bool_("6+", default=False)


class InitProducerIdResponse(Response, answers=InitProducerIdRequest):
    throttle_time_ms:           int = int32()
    error_code:                 int = int16()
    producer_id:                int = int64(default=-1)
    producer_epoch:             int = int16()
    ongoing_txn_producer_id:    int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
