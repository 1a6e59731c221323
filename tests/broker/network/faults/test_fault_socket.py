"""Faults are asked for line by line, and each line is answered."""

from __future__ import annotations

import asyncio
import json
import socket

from broker.handlers import ALL
from broker.network.faults.fault_socket import FaultSocket
from broker.network.faults.fault_table import FaultTable
from protocol.messages.heartbeat import HeartbeatRequest


async def test_lines_are_answered_in_order_however_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    faults = FaultTable(ALL)
    listening = FaultSocket(ours.detach(), faults, asyncio.get_running_loop())
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    first = {"id": 1, "do": "inject", "api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "times": 0}
    second = {"id": 2, "do": "inject", "api": "Heartbea", "delay_ms": 1}
    third, fourth = {"id": 3, "do": "clear_faults"}, {"id": 4, "do": "nothing"}
    lines = "".join(json.dumps(each) + "\n" for each in (first, second, third, fourth)).encode()
    cut = lines.index(b'{"id": 3') + 5
    writer.write(lines[:cut])
    assert json.loads(await reader.readline()) == {"id": 1, "ok": True}
    assert faults.of(HeartbeatRequest.api_key, is_follower=False) is not None
    refused = json.loads(await reader.readline())
    assert refused == {"id": 2, "ok": False, "error": "there is no API 'Heartbea': did you mean Heartbeat?"}
    writer.write(lines[cut:])
    assert json.loads(await reader.readline()) == {"id": 3, "ok": True}
    assert faults.of(HeartbeatRequest.api_key, is_follower=False) is None
    assert json.loads(await reader.readline()) == {"id": 4, "ok": False, "error": "nothing is done by 'nothing'"}
    writer.write_eof()
    assert await reader.read() == b"", "it ends with the other end"
    listening.close()
    writer.close()
