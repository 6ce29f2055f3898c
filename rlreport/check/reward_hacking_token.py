"""``reward_hacking_token``: a symbol, word or phrase spreads with the reward."""

from __future__ import annotations

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import ResponseRef
from rlreport.check.ngrams import spreading_ngrams
from rlreport.check.thresholds import FIGHTIN_WORDS, Thresholds
from rlreport.check.words import figure, percent, repr_text
from rlreport.tables import Tables

LOOKED_AT = 20
TOLD = 5


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Find n-grams that spread and whose holders earn more than the rest of their step."""
    limits = thresholds.reward_hacking_token
    if tables.ngrams is None:
        return CHECK.not_run("response")
    comparable = tables.ref_ngrams is not None and tables.ref_ngrams.unit == tables.ngrams.unit
    if len(tables.steps) < thresholds.trend.shortest_run and not comparable:
        return CHECK.too_short(tables, thresholds)
    spread = spreading_ngrams(tables, thresholds, LOOKED_AT)
    table = spread.table
    paid = table[(table["own_z"] >= limits.lift_z) & (table["own_lift"] >= limits.lift)]
    if paid.empty:
        return None
    top = paid.iloc[0]
    others = [repr_text(text) for text in paid["ngram"].iloc[1:TOLD]]
    more = f"; so do {', '.join(others)}" if others else ""
    tokens = tables.ngrams.unit == "token"
    responses = [
        ResponseRef(step, n, int(position) if tokens else None)
        for (step, n), position in zip(top["examples"], top["positions"], strict=True)
    ]
    shares = spread.by_step[spread.by_step["ngram"] == top["ngram"]]
    return CHECK.finding(
        "warning",
        f"{repr_text(top['ngram'])} spreads with the reward: in {percent(top['share_first'])} of "
        f"responses before, {percent(top['share_last'])} at the end; holding it goes with "
        f"{figure(top['reward_lift'])} more reward inside a step{more}",
        steps=shares.loc[shares["share"] >= limits.share, "step"].tolist(),
        responses=responses,
        ngrams=paid["ngram"].head(TOLD),
    )


CHECK = Check(
    id="reward_hacking_token",
    looks_for="a symbol, word or phrase spreads with the reward",
    needs=(REWARD,),
    charts=("reward",),
    why=(
        "The policy may have found text that the reward pays for whatever it says; the reward "
        "then rises while the responses get worse."
    ),
    suggestion=(
        "Read the responses that hold it. If it is no part of the task, take it out of the "
        "reward, penalise it, or add such responses to the reward model's data as bad ones."
    ),
    source=FIGHTIN_WORDS,
    judge=judge,
    trend=False,
    needs_also="response, and five steps or reference responses",
)
