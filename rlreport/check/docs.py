"""How the verdict is made, for the page of the report and ``docs/checks.md``."""

from __future__ import annotations


def _section(title: str, *paragraphs: str) -> tuple[str, tuple[str, ...]]:
    return title, paragraphs


METHOD = (
    _section(
        "The verdict",
        "Its first word is that of the worst finding, folded ones included: Broken (critical) or "
        "Warning. A run without such a finding is Healthy if its reward, or the watched reward, "
        "rose over the run by more than chance, or if it was solved from the start; else it is "
        "Unclear. A run of fewer than five steps is not judged.",
        "The death of a run leads: a reward that stays at its lowest value to the end, or ends "
        "further below its start than it had ever been above, or responses that are all empty. "
        "Then what is critical, then warnings; of these first what makes the run invalid (NaN, "
        "holes in the log), then causes, consequences, notes, in the order below. A cause explains "
        "a consequence, or a death, if it can lead to it and at least half of that change comes "
        "after the cause began. "
        "What is explained is folded under its cause.",
        "The checkpoint to keep is named by a step: keep the last one saved at or before it. It is "
        "where the watched reward, else the reward, had its best mean before the first finding "
        "began that nothing else explains; without any finding, the last step if the reward is "
        "within noise of its best there. Where nothing was gained, none is named. The watched "
        "reward is a second reward of training (valid_reward), else the reward of validation.",
    ),
    _section(
        "Rollouts and trainer metrics",
        "The trainer's mean of a step is of all its rollouts, while a log may hold a few of them. "
        "Where the trainer logs a figure at half of the steps or more, checks of the run judge its "
        "series, and tiles show it; rollouts give the examples. What a metric measures, and its "
        "unit, is told from its name. Metrics with unknown names are charts alone.",
    ),
    _section(
        "Rise, fall, death",
        "The reward by step is judged over all steps. Its noise is the median absolute difference "
        "of successive steps, which a trend hardly touches; where they are alike (autocorrelation) "
        "means of several steps err more (AR(1)). It rose if the slope, or the last window against "
        "the first, is beyond that noise. A fall loses a part of the gain and is beyond noise, "
        "wherever the best steps lie. The last 3, 5 and 10 steps are also judged by themselves. A "
        "fall that recovered is dated from and until.",
    ),
    _section(
        "Windows",
        "Every figure of a finding and every tile speaks of the same two windows: the first fifth "
        "of the steps and the last, at least three steps each. A difference must be large enough "
        "and more than chance, judged by the larger of two standard errors, one over responses "
        "(clustered by prompt) and one over step means.",
        "Checks judge the steps before the first NaN in rewards or log-probabilities. Where the "
        "reward function changed, checks of the reward judge its gap to the reference, else the "
        "longer part of the run.",
    ),
    _section(
        "Since when",
        "One method for all checks, on the check's own figure by step. The baseline is the mean "
        "of the first three steps, for a fall of the best ones. Smoothed over three steps, the "
        "onset is the first step from which the figure stays beyond the baseline, to the end, by "
        "four standard errors and by a tenth of the whole change. The interval reaches from the "
        "first corner of the best ramp (flat, linear, flat) to the step from which a third of the "
        "change stays. What was so from the start has its first step.",
    ),
    _section(
        "Texts that spread",
        "Units are words in lower case, numbers, single CJK characters and runs of punctuation; "
        "texts are one to four of them in a row. A text spreads if the share of sampled responses "
        "that hold it rose clearly: its log-odds ratio with an informative Dirichlet prior, in "
        "standard errors (Monroe, Colaresi and Quinn 2008, equations 15, 19 and 22), counted in "
        "responses, as one that repeats a text says it once. It is called reward hacking only if "
        "responses that hold it earn more than others of the same step, fewer than half of the "
        "prompts ask for it, and harm is seen beside it.",
    ),
    _section(
        "Evidence",
        "Three responses after the onset, of different prompts, the clearest first; beside each, "
        "where its prompt recurs, the last response to it from before the onset.",
    ),
    _section(
        "Thresholds",
        "Any threshold can be set in a TOML file given with --thresholds, under the name of its "
        "check. A finding can be set aside with --mute ID=REASON: it is shown as muted, with the "
        "reason.",
    ),
)
"""How the verdict is made, for readers: titles and paragraphs."""
