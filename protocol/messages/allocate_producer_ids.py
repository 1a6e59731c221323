"""A broker gets a block of producer ids from the controller (KIP-730)."""

from __future__ import annotations

from protocol.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsRequest(Request, key=67, versions="0", flexible="0+"):
    broker_id:    int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Response, answers=AllocateProducerIdsRequest):
    throttle_time_ms:  int = int32()
    error_code:        int = int16()
    producer_id_start: int = int64()
    producer_id_len:   int = int32()
