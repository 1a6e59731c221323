"""What Java takes for a regular expression, for the jobs: they load no package of the server by its name."""

from __future__ import annotations

from config.java_patterns.pattern import compile_java
from config.java_patterns.reading import InvalidPatternError, UnsupportedPatternError

__all__ = ["InvalidPatternError", "UnsupportedPatternError", "compile_java"]
