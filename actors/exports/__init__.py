"""Exports: the selection of a session's lines, the formats, and the destination."""

from __future__ import annotations

from typing import Literal, TypeAlias

ExportFormat: TypeAlias = Literal["native", "pi", "omp", "json", "markdown", "html", "nanocoder", "picoclaw", "dive"]
"""What a session can be exported as; see docs/exporting.md."""
