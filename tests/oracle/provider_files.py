"""The files and variables that the cases of config providers name."""

from __future__ import annotations

from pathlib import Path

FOLDER = "/FOLDER"
"""Where the files are, in a recording."""

ENVIRONMENT = {
    "MY_NAME": "name1",
    "MY_OTHER": "other$1",
    "MY_EMPTY": "",
    "MY_NESTED": "${env:MY_NAME}",
    "MY_DOLLAR": "a$b\\c",
    "MY_NUMBER": " 7 ",
    "YOUR_NAME": "name2",
}

_PROPERTIES = (
    "# a comment\nkey=value\nspaced key = x y \nuni=h\\u00e4\nraw=h\u00e4\nlong=a\\\n   b\ncolon:c\nempty=\n"
    "nested=${env:MY_NAME}\n"
)


def make_provider_files(folder: Path) -> None:
    for name in ("a", "b", "a/sub"):
        (folder / name).mkdir()
    (folder / "a/f.properties").write_text(_PROPERTIES, encoding="utf-8")
    (folder / "b/f.properties").write_text("key=of b\n", encoding="utf-8")
    (folder / "a/latin.properties").write_bytes(b"key=h\xe4\n")
    (folder / "a/escape.properties").write_bytes(b"key=\\u00zz\n")
    (folder / "a/secret").write_text("s3cret\n", encoding="utf-8")
    (folder / "a/raw").write_text("h\u00e4", encoding="utf-8")
    (folder / "a/latin").write_bytes(b"h\xe4")
    (folder / "a/sub/deep").write_text("deep", encoding="utf-8")
    (folder / "b/other").write_text("other", encoding="utf-8")
    (folder / "a/link").symlink_to(folder / "b/other")
