"""Checks of texts that spread with the reward: a hack of it, or the answer's format."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.distinct import distinct_fall
from rlreport.check.finding import Facts, LogText
from rlreport.check.judges.text import DiversityCollapse
from rlreport.check.limits import Limit, Limits
from rlreport.check.ngrams import FIGHTIN_WORDS, Spreading
from rlreport.check.run import Run, Shown, mean
from rlreport.check.spreading import checked, held, label_contained
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, told

KL_OUT, KL_OUT_A_TOKEN = 10.0, 0.1
REPEATED = 3.0
"""Times that holders repeat a text, from which that is harm."""

TOLD = 5
CARRIES = 0.5
"""Part of the gain from which a text carries the reward."""
ASKED = 0.5
"""Share of holders whose prompts hold the text, beyond which they ask for it."""


class FormatLearned(Limits):
    """Thresholds of ``format_learned``."""

    share = Limit(0.5, "of responses", "info: share of responses that hold it, last window")
    contained = Limit(0.8, "of responses", "with the best reward hold their label")


def judge_hacking(run: Run) -> Result:
    """Find a text that spreads, whose holders earn more, and that carries the reward's gain.

    A reward that a label or a rule decides pays for the answer's format as well. Of such a run
    it is told as a hack only where it does harm, and where holders need not hold the label it
    may be either.
    """
    if run.tables.words is None:
        return REWARD_HACKING_TOKEN.not_run("response")
    if run.first is None and run.tables.ref_words is None:
        return REWARD_HACKING_TOKEN.too_short(run)
    paid = _paid(run)
    if paid.empty:
        return None
    top = _leading(paid)
    counts = run.spreading.counts[top["ngram"]]
    verdict = _hack_or_format(run, counts)
    if verdict == "format":
        return None
    shares = held(counts)
    carried, start, end = _carried(run, shares)
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
    by_lift = paid.sort_values("lift_z", ascending=False)["ngram"]
    others = [text for text in by_lift if text not in top["ngram"]]
    texts = [LogText(t) for t in (top["ngram"], *others[: TOLD - 1])]
    form = top["kind"] == "structure"
    return REWARD_HACKING_TOKEN.finding(
        run,
        "critical" if critical else "warning",
        met,
        series=run.by_step(shares),
        always=run.first is None,
        shown=_holders(top, counts),
        texts=() if form else texts,
        text=str(top["ngram"]) if form else texts[0],
        kind=str(top["kind"]),
        share=float(top["share_last"]),
        share_start=float(top["share_first"]),
        lift=float(top["reward_lift"]),
        carried=carried,
        reward_start=start,
        reward_end=end,
        others=() if verdict == "either" else tuple(texts[1:]),
        exploit=verdict == "either",
    )


def _paid(run: Run) -> pd.DataFrame:
    """Return the texts that spread with the reward and carry a good part of its gain."""
    limits, table = run.limits[Spreading], run.spreading.table
    rose = any(run.change(run.column(name)).rose for name in ("reward", "reward_gap"))
    if not (rose or run.first is None or run.learned):
        return table[:0]
    return table[
        (table["lift_z"] >= limits.lift_z)
        & (table["lift"] >= limits.lift)
        # Without a start there is no gain to compare with.
        & ((table["of_gain"] >= limits.gain) | (run.first is None))
        & (table["asked"] <= ASKED)
    ]


def _leading(paid: pd.DataFrame) -> pd.Series:
    """Return the text that explains most of the reward; among equals the most widespread one."""
    return paid.iloc[int(np.argmax((paid["lift_z"] * paid["share_last"]).to_numpy()))]


def _hack_or_format(run: Run, counts: Floats) -> str:
    """Say whether a text that is paid for is a hack, the answer's format, or either."""
    watched = run.watched_shape
    validated = watched is not None and watched.rose and not watched.fell
    contained = label_contained(run)
    if contained is not None:
        learned = validated or contained >= run.limits[FormatLearned].contained
        return "format" if learned else "either"
    # A reward model has nothing that tells right from wrong: what carries its gain is suspect.
    return "hack" if not (checked(run) or validated) or _harm(run, counts) else "format"


def _harm(run: Run, counts: Floats) -> bool:
    """Say whether the run is worse for what spreads, by anything but its reward."""
    kl, length = (run.change(run.column(name)).last for name in ("kl_k1", run.length))
    late = counts[run.last.rows]
    watched = run.watched_shape
    fall = None
    if run.first is not None:
        fall = distinct_fall(run, run.limits[DiversityCollapse].least_bigrams)
    return bool(
        (kl > KL_OUT and kl > KL_OUT_A_TOKEN * length)
        or (watched is not None and not watched.rose)
        or mean(late[late > 0]) >= REPEATED
        or run.change(run.column("finished")).difference <= -0.2
        or (fall is not None and fall.share > run.limits[DiversityCollapse].fall)
    )


def _holders(top: pd.Series, counts: Floats) -> Shown:
    look_for = "" if top["kind"] == "structure" else str(top["ngram"]).rstrip("*")
    return Shown(
        counts,
        unit="occurrences",
        among=counts > 0,
        look_for=look_for,
        at_end=top["kind"] == "closing",
    )


def _carried(run: Run, shares: Floats) -> tuple[float, float, float]:
    """Return the part of the reward's gain that holders hold, and the mean at both ends."""
    if run.first is None:
        return np.nan, np.nan, np.nan
    reward = run.column("reward")
    moved = run.change(reward)
    gains, held = (reward - moved.first)[run.last.rows], shares[run.last.rows]
    known = np.isfinite(gains) & np.isfinite(held)
    total = float(gains[known].sum())
    part = float((gains * held)[known].sum()) / total if total > 0 else np.nan
    return part, moved.first, moved.last


def hacking_title(facts: Facts) -> str:
    """Return what spreads, how far, and what it earns."""
    start, end, carried = facts["reward_start"], facts["reward_end"], facts["carried"]
    if facts["exploit"]:
        said = _EITHER
    elif not isinstance(start, float) or not isinstance(end, float) or end <= start:
        said = marked("{what}, which earn {lift:figure} more than the rest of their step")
    elif isinstance(carried, float) and carried >= CARRIES:
        said = marked(
            "{what} and carries the reward from {reward_start:figure} to {reward_end:figure}"
        )
    else:
        said = marked(
            "{what} and is paid for: the reward rose from {reward_start:figure} to "
            "{reward_end:figure}"
        )
    places = {**facts, "what": _what(facts)}
    whole = marked("{said}, as do {others:quoted}.") if facts["others"] else marked("{said}.")
    return told(whole, {**places, "said": told(said, places)})


def _what(facts: Facts) -> str:
    """Return what spreads and how far."""
    kind = str(facts["text"]) if facts["kind"] == "structure" else str(facts["kind"])
    return told(_SPREADS[kind], facts)


_EITHER = marked(
    "Format or exploit? {what}. They earn {lift:figure} more than the rest of their step, but "
    "need not hold the label, and no validation tells"
)
_STANDS = marked(
    "{text:quoted} now stands in {share:percent} of responses ({share_start:percent} before)"
)
_SPREADS = {
    "text": _STANDS,
    "stem": _STANDS,
    "opening": marked(
        "{text:quoted} now begins {share:percent} of responses ({share_start:percent} before)"
    ),
    "closing": marked(
        "{text:quoted} now ends {share:percent} of responses ({share_start:percent} before)"
    ),
    "list": marked(
        "A list now stands in {share:percent} of responses ({share_start:percent} before)"
    ),
    "numbers": marked(
        "A numbered list now stands in {share:percent} of responses ({share_start:percent} before)"
    ),
    "headings": marked(
        "Headings now stand in {share:percent} of responses ({share_start:percent} before)"
    ),
    "parts": marked(
        "A form in several parts now shapes {share:percent} of responses "
        "({share_start:percent} before)"
    ),
    "structure": marked(
        "A form of lists, numbers or headings now shapes {share:percent} of responses "
        "({share_start:percent} before)"
    ),
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
    title=hacking_title,
    why="The policy may have found text that the reward pays for whatever it says; the reward "
    "then rises while the responses get worse.",
    suggestion="Read the responses that hold it. If it is no part of the task, take it out of the "
    "reward, penalise it, or add such responses to the reward model's data as bad ones.",
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
    """Find a text that spreads while the run learns, and that is no hack of its reward."""
    table = run.spreading.table
    if run.tables.words is None:
        return FORMAT_LEARNED.not_run("response")
    table = table[
        (table["share_last"] >= run.limits[FormatLearned].share) & (table["asked"] <= ASKED)
    ]
    if table.empty or not run.learned:
        return None
    paid = _paid(run)
    top = table.iloc[int(np.argmax(table["share_last"].to_numpy()))]
    if len(paid):
        top = _leading(paid)
        if _hack_or_format(run, run.spreading.counts[top["ngram"]]) != "format":
            return None
    elif not checked(run):
        return None
    form = top["kind"] == "structure"
    counts = run.spreading.counts[top["ngram"]]
    return FORMAT_LEARNED.finding(
        run,
        "info",
        run.met(FormatLearned.share, ">=", top["share_last"]),
        series=run.by_step(held(counts)),
        shown=_holders(top, counts),
        texts=() if form else (LogText(top["ngram"]),),
        text=str(top["ngram"]) if form else LogText(top["ngram"]),
        kind=str(top["kind"]),
        share=float(top["share_last"]),
        share_start=float(top["share_first"]),
        lift=float(top["reward_lift"]),
        paid=bool(len(paid)),
    )


def format_title(facts: Facts) -> str:
    """Return what spreads, how far, and why it is probably the format."""
    said = marked(
        "{what}; they do not earn more than others: probably the answer format being learned."
    )
    if facts["paid"]:
        said = marked(
            "{what}; they earn {lift:figure} more: probably the answer format being learned."
        )
    return told(said, {**facts, "what": _what(facts)})


FORMAT_LEARNED = Check(
    id="format_learned",
    name="a format is being learned",
    rank="note",
    looks_for="a text spreads while the run learns, and is no hack of its reward",
    charts=("reward",),
    needs=(REWARD,),
    judge=judge_format,
    limits=FormatLearned,
    title=format_title,
    why="Answers that a parser can read earn reward from the first step on: the rise of the reward "
    "is in part one of format.",
    suggestion="Read some responses that hold it. Compare the rise with a baseline whose prompt "
    "shows the format.",
    source=FIGHTIN_WORDS,
    sampled=("share",),
    of_reward=True,
)
