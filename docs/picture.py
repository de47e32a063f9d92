"""Draws docs/tree.svg, the picture of the README: the tree with which `treering demo` ends, as a terminal shows it.

python docs/picture.py > docs/tree.svg
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from html import unescape

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COMMAND = [sys.executable, "-m", "treering.cli", "demo"]
WIDTH = 100
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" font-size="20">
<style>{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="100%" height="100%"/></clipPath>{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="#14181d"/>
<g transform="translate(16, 10)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""Rich's own frame has a title bar, and loads its typeface from elsewhere."""


def tree() -> str:
    """Return the tree of the demo, with the colors of a terminal."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    told = subprocess.run(COMMAND, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return told.partition("The tree of the plan\x1b[0m\n")[2].partition("\n\n")[0]


def picture(drawn: str) -> str:
    """Return a terminal's output as an SVG image."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(drawn))
    return console.export_svg(theme=MONOKAI, code_format=FRAME, unique_id="tree")


def text_of(image: str) -> str:
    """Return the text of an image of `picture`."""
    return unescape(re.sub(r"<style>.*?</style>|<[^>]+>", "", image, flags=re.DOTALL)).replace("\xa0", " ")


if __name__ == "__main__":
    sys.stdout.write(picture(tree()))
