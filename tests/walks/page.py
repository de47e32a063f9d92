"""The lines of CONTRIBUTING.md that a walk gives."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def code_of(walk: str) -> str:
    """Return the code of a walk, by the walk's title."""
    page = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition(f"### {walk}\n")[2].partition("\n##")[0]
    (code,) = _CODE.findall(section)
    return str(code)
