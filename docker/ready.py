"""The health check of the image: exit code 0 when the broker in this container serves clients.

Rules: standard library only, and little of it, because it runs every few seconds. Where to ask is in the variables of the
broker's settings `barnabas.http.host` and `barnabas.http.port`.
"""

import os
import socket
import sys

ALL_ADDRESSES = ("", "0.0.0.0", "::")  # noqa: S104  compared, not listened on
LIMIT_S = 2.0


def answer(host: str, port: int) -> bytes:
    """Return the beginning of the answer to `GET /ready`. Raises OSError."""
    with socket.create_connection((host, port), LIMIT_S) as connection:
        connection.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
        return connection.recv(1024)


def main() -> int:
    host = os.environ.get("KAFKA_BARNABAS_HTTP_HOST", "")
    port = int(os.environ.get("KAFKA_BARNABAS_HTTP_PORT", "8080"))
    try:
        line = answer("127.0.0.1" if host in ALL_ADDRESSES else host, port).split(b"\r\n")[0]
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{line.decode('latin-1')}\n")
    return 0 if line.split()[1:2] == [b"200"] else 1


if __name__ == "__main__":
    sys.exit(main())
