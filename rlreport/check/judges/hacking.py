"""Checks of texts that spread with the reward: reward hacking, or the format of answers."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Fact, Facts, LogText
from rlreport.check.judges.text import DiversityCollapse
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Ranking, Run, mean
from rlreport.check.shapes import distinct_fall, is_verifiable, label_contained
from rlreport.check.spreading import FIGHTIN_WORDS, Spreading, has_text
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, message, told

KL_OUT, KL_OUT_A_TOKEN = 10.0, 0.1
"""Nats per response, and per token, above which the KL is too high."""

MIN_REPEATS = 3.0
"""A text that occurs this often in each response, on average, is repeated."""

MAX_NAMED = 5
CARRIES = 0.5
"""A text carries the reward if it has this part of the reward's gain."""
ASKED = 0.5
"""Prompts ask for a text if this share of its responses have it in their prompt."""

Verdict = Literal["hack", "format", "either"]


class FormatLearned(Limits):
    """Thresholds of ``format_learned``."""

    share = Limit(0.5, "of responses", "info: share of responses that contain it, last window")
    contained = Limit(0.8, "of responses", "with the best reward contain their label")


def judge_hacking(run: Run) -> Result:
    """Find a text that spreads, earns more than other responses, and explains the reward's gain."""
    if run.tables.words is None:
        return REWARD_HACKING_TOKEN.not_run("response")
    if run.first is None and run.tables.ref_words is None:
        return REWARD_HACKING_TOKEN.too_short(run)
    rewarded = _rewarded_texts(run)
    if rewarded.empty:
        return None
    top = _leading_text(rewarded)
    counts = run.spreading.counts[top["ngram"]]
    verdict = _classify(run, counts)
    if verdict == "format":
        return None
    shares = has_text(counts)
    carried, start, end = _carried_gain(run, shares)
    held_by_most = run.met(Spreading.held, ">=", top["share_last"])
    carries = run.met(Spreading.carried, ">=", carried)
    critical = bool(held_by_most and carries) and verdict == "hack"
    met = [
        *run.met(Spreading.share, ">=", top["share_last"]),
        *run.met(Spreading.z, ">=", top["z"]),
        *run.met(Spreading.lift, ">=", top["lift"]),
        *run.met(Spreading.lift_z, ">=", top["lift_z"]),
        *(held_by_most + carries if critical else []),
    ]
    by_lift = rewarded.sort_values("lift_z", ascending=False)["ngram"]
    others = [text for text in by_lift if text not in top["ngram"]]
    companions = tuple(LogText(text) for text in others[: MAX_NAMED - 1])
    return REWARD_HACKING_TOKEN.finding(
        run,
        "critical" if critical else "warning",
        met,
        series=run.by_step(shares),
        always=run.first is None,
        ranking=_rank_holders(top, counts),
        texts=() if top["kind"] == "structure" else (LogText(top["ngram"]), *companions),
        more=_text_facts(top),
        carried=carried,
        reward_start=start,
        reward_end=end,
        others=() if verdict == "either" else companions,
        exploit=verdict == "either",
    )


def _rewarded_texts(run: Run) -> pd.DataFrame:
    """Return the texts that spread with the reward and earn a good part of its gain."""
    limits, table = run.limits[Spreading], run.spreading.table
    rose = any(run.change(run.column(name)).rose for name in ("reward", "reward_gap"))
    if not (rose or run.first is None or run.learned):
        return table[:0]
    return table[
        (table["lift_z"] >= limits.lift_z)
        & (table["lift"] >= limits.lift)
        # Without a first window the gain is unknown.
        & ((table["of_gain"] >= limits.gain) | (run.first is None))
        & (table["asked"] <= ASKED)
    ]


def _leading_text(texts: pd.DataFrame) -> pd.Series:
    """Return the text that explains most of the reward: by significance times share."""
    return texts.iloc[int(np.argmax((texts["lift_z"] * texts["share_last"]).to_numpy()))]


def _classify(run: Run, counts: Floats) -> Verdict:
    """Return whether a rewarded text is a hack, the format of answers, or either.

    With labels it is the format if the best responses contain their label or validation rises,
    else either. Without labels it is the format if a rule computes the reward or validation
    rises, and nothing got worse; else a hack.
    """
    watched = run.watched_shape
    validated = watched is not None and watched.rose and not watched.fell
    contained = label_contained(run)
    if contained is not None:
        learned = validated or contained >= run.limits[FormatLearned].contained
        return "format" if learned else "either"
    return "format" if (is_verifiable(run) or validated) and not _harms(run, counts) else "hack"


def _harms(run: Run, counts: Floats) -> bool:
    """Return whether KL, validation, endings or diversity got worse, or the text is repeated."""
    kl, length = (run.change(run.column(name)).last for name in ("kl_k1", run.length))
    last_counts = counts[run.last.rows]
    watched, limits = run.watched_shape, run.limits[DiversityCollapse]
    fall = distinct_fall(run, limits.least_bigrams) if run.first else None
    return bool(
        (kl > KL_OUT and kl > KL_OUT_A_TOKEN * length)
        or (watched is not None and not watched.rose)
        or mean(last_counts[last_counts > 0]) >= MIN_REPEATS
        or run.change(run.column("finished")).difference <= -0.2
        or (fall is not None and fall.share > limits.fall)
    )


def _text_facts(top: pd.Series) -> dict[str, Fact]:
    """Return the facts about a text; names of structures are not taken from the log."""
    return {
        "text": str(top["ngram"]) if top["kind"] == "structure" else LogText(top["ngram"]),
        "kind": str(top["kind"]),
        "share": float(top["share_last"]),
        "share_start": float(top["share_first"]),
        "lift": float(top["reward_lift"]),
    }


def _rank_holders(top: pd.Series, counts: Floats) -> Ranking:
    look_for = "" if top["kind"] == "structure" else str(top["ngram"]).rstrip("*")
    return Ranking(
        counts,
        unit="occurrences",
        among=counts > 0,
        look_for=look_for,
        at_end=top["kind"] == "closing",
    )


def _carried_gain(run: Run, shares: Floats) -> tuple[float, float, float]:
    """Return the share of the gain in responses with the text, and the mean reward at both ends."""
    if run.first is None:
        return np.nan, np.nan, np.nan
    reward = run.column("reward")
    moved = run.change(reward)
    gains, has_text = (reward - moved.first)[run.last.rows], shares[run.last.rows]
    finite = np.isfinite(gains) & np.isfinite(has_text)
    total = float(gains[finite].sum())
    part = float((gains * has_text)[finite].sum()) / total if total > 0 else np.nan
    return part, moved.first, moved.last


def _hacking_title(facts: Facts) -> str:
    carried = facts["carried"]
    clause = marked("{what}; they earn {lift:figure} more reward than others of their step")
    if facts["exploit"]:
        clause = marked(
            "Format or exploit? {what}. They earn {lift:figure} more reward than others of "
            "their step, but often lack the label, and validation does not confirm a gain"
        )
    elif isinstance(carried, float) and carried >= CARRIES:
        clause = marked(
            "{what}; the reward rose from {reward_start:figure} to {reward_end:figure} with it"
        )
    places = {**facts, "what": _what(facts)}
    whole = (
        marked("{said}. It spreads with {others:quoted}.") if facts["others"] else marked("{said}.")
    )
    return told(whole, {**places, "said": told(clause, places)})


def _what(facts: Facts) -> str:
    """Return a clause that names the text and how far it spread."""
    form = message(_FORMS.get(str(facts["text"]), ""))
    return told(_SPREADS[str(facts["kind"])], {**facts, "form": form})


_APPEARS = marked(
    "{text:quoted} appears in {share:percent} of responses ({share_start:percent} at the start)"
)
_SPREADS = {
    "text": _APPEARS,
    "stem": _APPEARS,
    "opening": marked(
        "{text:quoted} begins {share:percent} of responses ({share_start:percent} at the start)"
    ),
    "closing": marked(
        "{text:quoted} ends {share:percent} of responses ({share_start:percent} at the start)"
    ),
    "structure": marked(
        "A structure of {form} appears in {share:percent} of responses "
        "({share_start:percent} at the start)"
    ),
}
_FORMS = {
    "list": marked("lists"),
    "numbers": marked("numbered lists"),
    "headings": marked("headings"),
    "parts": marked("several parts"),
    "structure": marked("lists, numbers or headings"),
}

REWARD_HACKING_TOKEN = Check(
    id="reward_hacking_token",
    name="reward hacking",
    rank="cause",
    looks_for="a symbol, word, phrase or form spreads with the reward",
    needs=(REWARD,),
    charts=("reward",),
    judge=judge_hacking,
    limits=Spreading,
    title=_hacking_title,
    why="The policy may have found text that raises the reward whatever the answer is; the reward "
    "then rises while responses get worse.",
    suggestion="Read the responses that hold it. If it is no part of the task, penalise it, or add "
    "such responses to the reward model's data as bad ones.",
    explains=(
        *("kl_explosion", "diversity_collapse", "entropy_collapse", "missing_eos"),
        *("length_collapse", "length_hacking", "not_sharpening", "persistent_losers"),
        *("language_drift", "reward_part_dominance", "watched_reward_fall"),
    ),
    trend=False,
    of_reward=True,
    sampled=("share",),
    needs_also="response, and five steps or reference responses",
)


def judge_format(run: Run) -> Result:
    """Find a text that spreads while the run learns, and is no reward hacking."""
    table = run.spreading.table
    if run.tables.words is None:
        return FORMAT_LEARNED.not_run("response")
    min_share = run.limits[FormatLearned].share
    table = table[(table["share_last"] >= min_share) & (table["asked"] <= ASKED)]
    if table.empty or not run.learned:
        return None
    rewarded = _rewarded_texts(run)
    widest = table.iloc[int(np.argmax(table["share_last"].to_numpy()))]
    top = widest if rewarded.empty else _leading_text(rewarded)
    counts = run.spreading.counts[top["ngram"]]
    if not (is_verifiable(run) if rewarded.empty else _classify(run, counts) == "format"):
        return None
    return FORMAT_LEARNED.finding(
        run,
        "info",
        run.met(FormatLearned.share, ">=", top["share_last"]),
        series=run.by_step(has_text(counts)),
        ranking=_rank_holders(top, counts),
        texts=() if top["kind"] == "structure" else (LogText(top["ngram"]),),
        more=_text_facts(top),
        paid=not rewarded.empty,
    )


def _format_title(facts: Facts) -> str:
    sentence = marked(
        "{what}; they earn no more than others: probably the answer format being learned."
    )
    if facts["paid"]:
        sentence = marked(
            "{what}; they earn {lift:figure} more: probably the answer format being learned."
        )
    return told(sentence, {**facts, "what": _what(facts)})


FORMAT_LEARNED = Check(
    id="format_learned",
    name="a format is being learned",
    rank="note",
    looks_for="a text spreads while the run learns, and is no hack of its reward",
    charts=("reward",),
    needs=(REWARD,),
    judge=judge_format,
    limits=FormatLearned,
    title=_format_title,
    why="Part of the reward's rise then comes from the format alone.",
    suggestion="Compare the rise with a baseline whose prompt shows the format.",
    source=FIGHTIN_WORDS,
    sampled=("share",),
    of_reward=True,
)
