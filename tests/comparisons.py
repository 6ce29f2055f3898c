"""Two made-up runs of which one lost the answer's format, and their comparison in each form."""

from itertools import product
from pathlib import Path

from tests.reading import row, write

STEPS = 5
SIZE = 8
PROMPTS = 40
# What each prompt earns in BASE and in NEW: 0 improves, 1 regresses, 2 and 3 are as they were; the
# others are solved in every other response, half of those of NEW without the format
_CLEAR = {
    0: (0.0, 1.0),
    1: (1.0, 0.0),
    2: (0.0, 0.0),
    3: (1.0, 1.0),
}
LONG = " ".join(["So we count on, as the question asks."] * 20)


def write_pair(folder: Path, name: str = "Question {}: how many?") -> tuple[Path, Path]:
    """Write the logs of BASE and of NEW; ``name``: of a prompt by its number."""
    paths = []
    for side, run in enumerate(("base", "new")):
        rows = []
        for step, prompt, n in product(range(STEPS), range(PROMPTS), range(SIZE)):
            solved = _CLEAR.get(prompt, (float(n % 2),) * 2)[side]
            is_marked = not side or prompt < len(_CLEAR) or n % 4 < 2
            ending = f"#### {n}" if is_marked else f"which makes {n}"
            rows.append(
                row(
                    step,
                    prompt=name.format(prompt),
                    response=f"Beginning {run} {n}. {LONG} {ending}",
                    reward=solved if is_marked else 0.0,
                    n=n,
                )
            )
        path = write(folder / run / "log.jsonl", rows).parent
        (path / "config.json").write_text(f'{{"group_size": {8 - 4 * side}}}')
        paths.append(path)
    return paths[0], paths[1]
