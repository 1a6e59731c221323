"""An archive that has not changed is not read again at the begin of a task; one that has, is."""

from __future__ import annotations

import importlib
import os
import zipfile
import zipimport
from pathlib import Path
from typing import Any

import barnabas.spark as _spark  # noqa: F401  installs the private names

daemon: Any = importlib.import_module("barnabas.spark.daemon")


def write(archive: Path, name: str, text: str) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, text)


def test_an_archive_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    archive = tmp_path / "lib.zip"
    write(archive, "first_module.py", "x = 1")
    read: list[str] = []

    def rescan(importer: zipimport.zipimporter) -> None:
        read.append(importer.archive)
        zipimport.zipimporter.invalidate_caches(importer)

    forget = daemon.keep_unchanged_archives(rescan)
    importer = zipimport.zipimporter(str(archive))
    for _ in range(3):
        forget(importer)
    assert read == [str(archive)]
    write(archive, "second_module.py", "x = 2\n" * 100)
    os.utime(archive, ns=(1, 1))
    forget(importer)
    assert importer.find_spec("second_module") is not None
    assert importer.find_spec("first_module") is None
    assert len(read) == 2
    archive.unlink()
    for _ in range(2):
        forget(importer)
    assert len(read) == 3
