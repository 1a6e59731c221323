"""Small texts that a job keeps beside its checkpoint, on any file system that Spark knows.

Rules: a text is replaced as a whole: each version is a file of its own, which gets its name when it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredText:
    """A text in `folder` under `name`. One process writes it."""

    def __init__(self, spark: SparkSession, folder: str, name: str) -> None:
        context = spark.sparkContext
        self._hadoop: Any = context._jvm.org.apache.hadoop  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001
        self._io: Any = context._jvm.org.apache.commons.io.IOUtils  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001
        self._folder = self._hadoop.fs.Path(folder)
        self._name = name
        self._files: Any = self._folder.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001

    def read(self) -> str | None:
        """Return the newest text, None without one."""
        versions = self._versions()
        if not versions:
            return None
        stream = self._files.open(self._path(versions[-1]))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, text: str) -> None:
        """Replace the text."""
        versions = self._versions()
        version = versions[-1] + 1 if versions else 1
        unnamed = self._hadoop.fs.Path(self._folder, f".{self._name}.tmp")
        stream = self._files.create(unnamed, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not self._files.rename(unnamed, self._path(version)):
            raise OSError(f"cannot rename {unnamed} to {self._path(version)}")
        for old in versions:
            self._files.delete(self._path(old), False)

    def _path(self, version: int) -> Any:
        return self._hadoop.fs.Path(self._folder, f"{self._name}.{version}")

    def _versions(self) -> list[int]:
        if not self._files.exists(self._folder):
            return []
        names = [str(each.getPath().getName()) for each in self._files.listStatus(self._folder)]
        numbers = [name.removeprefix(f"{self._name}.") for name in names if name.startswith(f"{self._name}.")]
        return sorted(int(number) for number in numbers if number.isdigit())
