"""Load a log with RLLoggingBoard's own function, whose code is given by its path.

``python board.py CHECKOUT LOG RESULT``: CHECKOUT is a folder with ``rl_logging_board.py``. Only
loading is measured, so Streamlit and Plotly are stand-ins that do nothing. This imports no more
than the board itself, so that it runs in the board's environment.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

# The preset of the board: its loading keeps all rows, whatever the number
MAX_SAMPLES_EACH_STEP = 128

REPLACED = (
    "streamlit",
    "plotly",
    "plotly.express",
    "plotly.graph_objects",
    "plotly.figure_factory",
)


class Nothing:
    """Object of which every attribute and every call is an object like it."""

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):  # the import system asks modules for some
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *positional: object, **named: object) -> Nothing:
        return self


def main(checkout: Path, log: Path, result: Path) -> None:
    """Load a log; write the number of rows and the means that the board computes."""
    state: dict[str, Any] = {}
    board = import_board(checkout, state)
    board.load_log_file(log, MAX_SAMPLES_EACH_STEP)
    means = state["reward_df"].sort_index().reset_index()
    about = {
        "rows": sum(len(step["reward"]) for step in state["logging_data"].values()),
        "means": {
            "step": means["step"].tolist(),
            "reward_mean": means["reward"].tolist(),
        },
        "text": "all values in memory, to be shown; mean reward",
        "versions": versions(board),
    }
    result.write_text(json.dumps(about))


def import_board(checkout: Path, state: dict[str, Any]) -> Any:
    """Import the board; what it loads is put in ``state``."""
    stand_ins: dict[str, Any] = dict.fromkeys(REPLACED, Nothing())
    stand_ins["streamlit"] = Nothing()
    stand_ins["streamlit"].session_state = state
    sys.modules.update(stand_ins)
    sys.path.insert(0, str(checkout))
    return importlib.import_module("rl_logging_board")


def versions(board: Any) -> str:
    """Return the versions of what loading uses: ``json`` is the standard library's or ujson."""
    parser = board.json
    return (
        f"Python {platform.python_version()}, "
        f"{parser.__name__} {parser.__version__}, NumPy {board.np.__version__}"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
