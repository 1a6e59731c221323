"""A client's address as Kafka shows it in DescribeGroups and stores it in group metadata: Java's InetAddress.toString."""

from __future__ import annotations

import ipaddress


def java_address_text(host: str) -> str:
    """ "/127.0.0.1"; IPv6 with all eight groups and without leading zeros: "/0:0:0:0:0:0:0:1"."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return f"/{host}"
    if isinstance(address, ipaddress.IPv4Address):
        return f"/{address}"
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
