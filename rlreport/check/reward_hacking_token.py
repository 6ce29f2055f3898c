"""``reward_hacking_token``: a symbol, word, phrase or form spreads with the reward."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts, LogText
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, told

FIGHTIN_WORDS = marked(
    "LMFlow post (# grew from 3 % to half of the responses); method: Monroe et al. 2008, "
    "Fightin' Words"
)


class RewardHackingToken(Limits):
    """Thresholds of ``reward_hacking_token``."""

    share = Limit(
        0.2, "of responses", "share of responses that hold it, last window", FIGHTIN_WORDS
    )
    ratio = Limit(
        3.0, "times", "that share, against the first window or the reference", FIGHTIN_WORDS
    )
    z = Limit(5.0, "std errors", "how clearly that share rose, over its error", FIGHTIN_WORDS)
    lift_z = Limit(3.0, "std errors", "what holding it earns inside a step, over its error")
    lift = Limit(0.25, "std of reward", "what holding it earns inside a step")
    gain = Limit(1 / 3, "of the gain", "of the reward, since it spread, that having spread earns")
    held = Limit(0.5, "of responses", "critical: hold it in the last window")
    carried = Limit(0.5, "of the gain", "critical: and hold this part of the reward's gain")


TOLD = 5

MOST = 0.5
"""Part of the gain from which a text carries the reward."""


def judge(run: Run) -> Result:
    """Find texts that spread and whose holders earn more than the rest of their step.

    The run's reward, or its gap to the reference, must have risen: what spreads while the
    reward falls is no hack of it.
    """
    limits, tables = run.limits[RewardHackingToken], run.tables
    if tables.ngrams is None:
        return CHECK.not_run("response")
    comparable = tables.ref_ngrams is not None and tables.ref_ngrams.unit == tables.ngrams.unit
    if run.first is None and not comparable:
        return CHECK.too_short(run)
    spread = run.spreading
    table = spread.table
    paid = table[
        (table["own_z"] >= limits.lift_z)
        & (table["own_lift"] >= limits.lift)
        & (table["lift_z"] >= limits.lift_z)
        # Without a start there is no gain to compare with.
        & ((table["of_gain"] >= limits.gain) | (run.first is None))
    ]
    rose = any(run.change(run.column(name)).rose for name in ("reward", "reward_gap"))
    if paid.empty or not (rose or run.first is None):
        return None
    # What explains most of the reward leads; among equals the one that spread furthest.
    top = paid.iloc[int(np.argmax((paid["own_z"] * paid["share_last"]).to_numpy()))]
    held = spread.held[top["ngram"]]
    shares = np.where(np.isfinite(held), held >= 0, np.nan)
    series = run.by_step(shares)
    carried, start, end = _carried(run, shares)
    held_by_most = run.met(RewardHackingToken.held, ">=", top["share_last"])
    carries = run.met(RewardHackingToken.carried, ">=", carried)
    critical = bool(held_by_most and carries)
    met = [
        *run.met(RewardHackingToken.share, ">=", top["share_last"]),
        *run.met(RewardHackingToken.z, ">=", top["z"]),
        *run.met(RewardHackingToken.lift, ">=", top["own_lift"]),
        *run.met(RewardHackingToken.lift_z, ">=", top["own_z"]),
        *(held_by_most + carries if critical else []),
    ]
    others = [t for t in paid.sort_values("own_z", ascending=False)["ngram"] if t != top["ngram"]]
    texts = [LogText(t) for t in (top["ngram"], *others[: TOLD - 1])]
    plain = top["kind"] == "text"
    in_tokens = tables.ngrams.unit == "token" and plain
    counts = spread.counts[top["ngram"]]
    return CHECK.finding(
        run,
        "critical" if critical else "warning",
        met,
        series=series,
        always=run.first is None,
        shown=Shown(
            counts,
            unit="occurrences",
            token=held if in_tokens else None,
            among=held >= 0,
            look_for=str(top["ngram"]).rstrip("*" if top["kind"] == "stem" else ""),
            at_end=top["kind"] == "closing",
        ),
        texts=texts if top["kind"] != "structure" else (),
        text=LogText(top["ngram"]) if top["kind"] != "structure" else str(top["ngram"]),
        kind=str(top["kind"]),
        share=float(top["share_last"]),
        share_start=float(top["share_first"]),
        lift=float(top["reward_lift"]),
        carried=carried,
        reward_start=start,
        reward_end=end,
        others=tuple(texts[1:]),
    )


def _carried(run: Run, shares: Floats) -> tuple[float, float, float]:
    """Return the part of the reward's gain that holders hold, and the mean at both ends."""
    if run.first is None:
        return np.nan, np.nan, np.nan
    reward = run.column("reward")
    moved = run.change(reward)
    gains = (reward - moved.first)[run.last.rows]
    held = shares[run.last.rows]
    known = np.isfinite(gains) & np.isfinite(held)
    total = float(gains[known].sum())
    if total <= 0:
        return np.nan, moved.first, moved.last
    return float((gains * held)[known].sum()) / total, moved.first, moved.last


def title(facts: Facts) -> str:
    """Return what spreads, how far, and what it earns."""
    kind = str(facts["kind"])
    what = told(_SPREADS[str(facts["text"]) if kind == "structure" else kind], facts)
    start, end = facts["reward_start"], facts["reward_end"]
    if not isinstance(start, float) or not isinstance(end, float) or end <= start:
        said = (
            marked("{what}, which earn {lift:figure} more than the rest of their step."),
            marked(
                "{what}, which earn {lift:figure} more than the rest of their step, as do "
                "{others:quoted}."
            ),
        )
    elif isinstance(facts["carried"], float) and facts["carried"] >= MOST:
        said = (
            marked(
                "{what} and carries the reward from {reward_start:figure} to {reward_end:figure}."
            ),
            marked(
                "{what} and carries the reward from {reward_start:figure} to {reward_end:figure}, "
                "as do {others:quoted}."
            ),
        )
    else:
        said = (
            marked(
                "{what} and is paid for: the reward rose from {reward_start:figure} to "
                "{reward_end:figure}."
            ),
            marked(
                "{what} and is paid for: the reward rose from {reward_start:figure} to "
                "{reward_end:figure}, as do {others:quoted}."
            ),
        )
    return told(said[bool(facts["others"])], {**facts, "what": what})


_SPREADS = {
    "text": marked(
        "{text:quoted} now stands in {share:percent} of responses ({share_start:percent} before)"
    ),
    "stem": marked(
        "{text:quoted} now stands in {share:percent} of responses ({share_start:percent} before)"
    ),
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


CHECK = Check(
    id="reward_hacking_token",
    name="reward hacking",
    rank="cause",
    looks_for="a symbol, word, phrase or form spreads with the reward",
    needs=(REWARD,),
    charts=("reward",),
    judge=judge,
    limits=RewardHackingToken,
    title=title,
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
