"""Rows that a long run appends one by one: an interrupted run loses at most one."""

import json
from pathlib import Path
from typing import Any


def finished(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; an incomplete last one, left by a kill, is cut off."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]
