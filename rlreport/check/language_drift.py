"""``language_drift``: responses leave the prompt's language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from string import ascii_letters

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import Limit, Limits
from rlreport.check.ngram_counts import sample_of
from rlreport.check.run import Run, Shown
from rlreport.figures.ragged import Floats
from rlreport.tables import TextSample
from rlreport.text.messages import marked
from rlreport.text.special import is_special

LMFLOW = marked("LMFlow post on PPO training")


class LanguageDrift(Limits):
    """Thresholds of ``language_drift``."""

    rise = Limit(
        0.2, "of responses", "info: rise of the share in another script than the prompt's", LMFLOW
    )
    most = Limit(0.5, "of responses", "warning: that share")


LEAST_LETTERS = 6
"""Letters a text has at least, if its script can be told."""

_NO_LETTERS = bytes(set(range(128)) - set(ascii_letters.encode()))
_JOINED = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HANGUL": "HANGUL"}


def script(character: str) -> str | None:
    """Return the script of a letter ("LATIN", "CJK", "CYRILLIC"), None for what is no letter."""
    if not character.isalpha():
        return None
    if character.isascii():
        return "LATIN"
    name = unicodedata.name(character, "").partition(" ")[0]
    return _JOINED.get(name, name) or None


def scripts(text: str) -> dict[str, int]:
    """Return how many letters of each script a text has."""
    if text.isascii():
        letters = len(text.encode().translate(None, _NO_LETTERS))
        return {"LATIN": letters} if letters else {}
    return Counter(found for character in text if (found := script(character)))


def judge(run: Run) -> Result:
    """Compare the share of responses whose main script is not their prompt's with the start."""
    ngrams = run.tables.ngrams
    if ngrams is None:
        return CHECK.not_run("response")
    foreign = _foreign(run, ngrams)
    if not np.isfinite(foreign).any():
        return CHECK.not_run("prompts and responses of several letters")
    moved = run.change(foreign)
    rise = run.met(LanguageDrift.rise, ">=", moved.difference)
    if not (rise and moved.rose):
        return None
    fell = False
    if run.watched:
        watched, column = run.watched
        fell = watched.change(watched.column(column)).fell
    most = run.met(LanguageDrift.most, ">", moved.last)
    return CHECK.finding(
        run,
        "warning" if fell or most else "info",
        rise + most,
        series=run.by_step(foreign),
        shown=Shown(foreign, among=foreign == 1),
        share=moved.last,
        share_start=moved.first,
        watched_fell=fell,
    )


def _foreign(run: Run, ngrams: TextSample) -> Floats:
    """Return 1 where a response's main script is not its prompt's, else 0; NaN unknown."""
    names: dict[str, int] = {}

    def number(counts: dict[str, int]) -> int:
        if sum(counts.values()) < LEAST_LETTERS:
            return -1
        return names.setdefault(max(counts, key=counts.__getitem__), len(names))

    prompts = run.tables.prompts
    of_prompt = dict(
        zip(prompts["prompt_id"], (number(scripts(str(p))) for p in prompts["prompt"]), strict=True)
    )
    sample = sample_of(run.tables, ngrams)
    units = np.asarray(sample.units)
    letters: dict[str, Floats] = {}
    for place, (raw, text) in enumerate(zip(ngrams.vocabulary, run.units[1], strict=True)):
        if is_special(raw):
            continue
        for name, count in scripts(text).items():
            if name not in letters:
                letters[name] = np.zeros(len(ngrams.vocabulary))
            letters[name][place] = count
    found = np.full(len(run.responses), np.nan)
    if not letters or not len(units):
        return found
    totals = np.stack(
        [
            np.bincount(sample.response, of[units], minlength=len(sample.rows))
            for of in letters.values()
        ]
    )
    main = np.array([names.setdefault(name, len(names)) for name in letters])[totals.argmax(axis=0)]
    enough = totals.sum(axis=0) >= LEAST_LETTERS
    ids = run.responses["prompt_id"].to_numpy()[sample.rows]
    own = np.array([of_prompt.get(prompt, -1) for prompt in ids.tolist()])
    known = enough & (own >= 0)
    found[sample.rows[known]] = (main != own)[known]
    return found


CHECK = Check(
    id="language_drift",
    name="responses leave the prompt's language",
    rank="consequence",
    needs=(Need("response", ("response_chars",)),),
    charts=("reward",),
    judge=judge,
    sampled=("share",),
    limits=LanguageDrift,
    title="{share:percent} of responses are in another script than their prompt "
    "({share_start:percent} before).",
    clause="{share:percent} of responses leave the prompt's language",
    why="The reward does not ask for the reader's language, and what it does ask for is found "
    "more easily in another.",
    suggestion="Add a reward for the prompt's language, or a KL penalty; look at whether the "
    "answer is still right for those who asked.",
    source="DeepSeek-R1 (language mixing); LMFlow post on PPO training",
    explains=("diversity_collapse", "length_collapse", "watched_reward_fall"),
)
