"""The smallest client: Metadata by hand, so that these tests need nothing but a socket."""

from __future__ import annotations

import socket
import struct

from protocol.header import encode_request
from protocol.messages.metadata import MetadataRequest, MetadataResponse

VERSION = 8


def topics_of(bootstrap_servers: str) -> dict[str, int]:
    """Topics and their numbers of partitions."""
    host, _, port = bootstrap_servers.rpartition(":")
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with socket.create_connection((host, int(port)), timeout=60) as connection, connection.makefile("rb") as stream:
        connection.sendall(b"".join(map(bytes, encode_request(request, VERSION, 1, "test"))))
        (size,) = struct.unpack(">i", stream.read(4))
        body = stream.read(size)
    response = MetadataResponse.decode(body, VERSION, 4)
    return {topic.name or "": len(topic.partitions) for topic in response.topics}
