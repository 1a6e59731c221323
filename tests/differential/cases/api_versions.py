from __future__ import annotations

import struct

from protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.play import Run, case


@case(ApiVersionsRequest, "normal")
def all_rows(run: Run) -> None:
    run.ask(ApiVersionsRequest(client_software_name="differential", client_software_version="1.0"))


@case(ApiVersionsRequest, "edge")
def asked_twice_on_one_connection(run: Run) -> None:
    for _ in range(2):
        answer = run.do(ApiVersionsRequest(client_software_name="a-b.c", client_software_version="1.0-x"), run.version)
        run.note(
            {"error_code": answer.error_code, "api_versions_rows": sum(row.api_key == 18 for row in answer.api_keys)}
        )


@case(ApiVersionsRequest, "wrong", "3+")
def client_names_that_are_not_allowed(run: Run) -> None:
    for name, version in (("", "1"), ("name", ""), ("-name", "1"), ("na me", "1"), ("name", "1_0!")):
        run.ask(ApiVersionsRequest(client_software_name=name, client_software_version=version))


def _v0_answer(frame: bytes) -> object:
    error, rows = struct.unpack_from(">hi", frame, 4)
    found = [struct.unpack_from(">hhh", frame, 10 + 6 * row) for row in range(rows)]
    return {
        "error_code": "UNSUPPORTED_VERSION" if error == 35 else str(error),
        "rows": [list(row) for row in found],
        "rest": len(frame) - 10 - 6 * rows,
    }


@case(ApiVersionsRequest, "edge", "0-2")
def a_client_id_that_is_no_utf8(run: Run) -> None:
    frame = struct.pack(">hhih", 18, run.version, 7, 3) + b"m\xfcn"
    run.ask_raw(struct.pack(">i", len(frame)) + frame, show=lambda frame: "answered")


@case(ApiVersionsRequest, "wrong", "0-2")
def body_too_long(run: Run) -> None:
    run.ask_raw(struct.pack(">ihhih", 14, 18, run.version, 7, -1) + b"\0\0\0\0", show=lambda frame: "answered")


@case(ApiVersionsRequest, "wrong")
def version_from_the_future(run: Run) -> None:
    """The header is taken for a flexible one, and the answer is that of version 0."""
    for version in (5 + run.version, 99, 32767):
        run.ask_raw(struct.pack(">ihhihb", 11, 18, version, 7, -1, 0), show=_v0_answer)
    run.ask_raw(struct.pack(">ihhihb", 14, 18, 5, 7, -1, 0) + b"\x01\x01\0", show=_v0_answer)


@case(ApiVersionsRequest, "wrong", "4")
def other_apis_in_unsupported_versions_and_unknown_keys(run: Run) -> None:
    for key, version in ((3, 99), (0, 12), (18, -1), (99, 0), (-1, 0)):
        run.ask_raw(struct.pack(">ihhih", 10, key, version, 7, -1))
