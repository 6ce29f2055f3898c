"""Prints what the changelog says of a version: ``python tests/release_notes.py 0.1.0``."""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def notes(version: str) -> str:
    """Return the section of a version, without its heading.

    Raises:
        SystemExit: there is none, it has no date, or it says nothing.
    """
    text = CHANGELOG.read_text("utf-8")
    section = (
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|^\[|\Z)"
    )
    found = re.search(section, text, re.M | re.S)
    if not found or not found[1].strip():
        raise SystemExit(
            f"CHANGELOG.md has no section `## [{version}] - DATE` that says anything"
        )
    return found[1].strip()


if __name__ == "__main__":
    print(notes(sys.argv[1]))
