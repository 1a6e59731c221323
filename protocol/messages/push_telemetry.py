"""A client pushes its metrics in OTLP (KIP-714)."""

from __future__ import annotations

from protocol.schema import Request, Response, bool_, bytes_, int8, int16, int32, uuid


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id:    int   = int32()
    terminating:        bool  = bool_()
    compression_type:   int   = int8()
    metrics:            bytes = bytes_()


class PushTelemetryResponse(Response, answers=PushTelemetryRequest):
    throttle_time_ms: int = int32()
    error_code:       int = int16()
