"""``length_hacking``: length buys reward."""

from __future__ import annotations

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import within_step_correlation
from rlreport.check.run import Run, Shown
from rlreport.check.windows import Trend, whole
from rlreport.text.messages import marked


class LengthHacking(Limits):
    """Thresholds of ``length_hacking``."""

    ratio = Limit(1.5, "times", "mean length against the first window")
    correlation = Limit(0.4, "", "of reward and length inside a step")


def judge(run: Run) -> Result:
    """Ask for longer responses and, inside a step, for more reward to the longer ones.

    The correlation is taken over the last window or, where length has run into its limit
    and no longer varies, over the whole run: either shows what was paid for.
    """
    length, reward = run.column(run.length), run.column("reward")
    moved = run.change(length)
    ratio = run.met(LengthHacking.ratio, ">=", moved.last, of=moved.first)
    if not (ratio and moved.rose):
        return None
    parts = (run.last, whole(run.tables))
    paid, z = max(
        (within_step_correlation(run.tables, reward, length, part) for part in parts),
        key=lambda found: (found[0] == found[0], found[0]),
    )
    correlation = run.met(LengthHacking.correlation, ">=", paid)
    rewards = run.change(reward)
    if not (correlation and z >= run.limits[Trend].z) or rewards.fell:
        return None
    return CHECK.finding(
        run,
        "warning",
        ratio + correlation,
        series=run.by_step(length),
        shown=Shown(length, unit=run.length_unit, at_end=True),
        start=moved.first,
        end=moved.last,
        unit=run.length_unit,
        correlation=paid,
        reward_start=rewards.first,
        reward_end=rewards.last,
        carried=rewards.rose,
    )


def title(facts: Facts) -> str:
    """Return how responses grew, and that it pays."""
    if not facts["carried"]:
        return marked(
            "Responses grew from {start:figure} to {end:figure} {unit}: inside a step the longer "
            "ones earn more (correlation {correlation:figure}), while the mean reward stayed: "
            "{reward_start:figure} at first, {reward_end:figure} at the end."
        )
    if facts["unit"] == "tokens":
        return marked(
            "Responses grew from {start:figure} to {end:figure} tokens and carried the reward "
            "from {reward_start:figure} to {reward_end:figure}: inside a step the longer ones earn "
            "more (correlation {correlation:figure})."
        )
    return marked(
        "Responses grew from {start:figure} to {end:figure} characters and carried the reward "
        "from {reward_start:figure} to {reward_end:figure}: inside a step the longer ones earn "
        "more (correlation {correlation:figure})."
    )


CHECK = Check(
    id="length_hacking",
    name="length hacking",
    rank="cause",
    looks_for="length buys reward",
    needs=(REWARD,),
    charts=("length", "reward"),
    judge=judge,
    limits=LengthHacking,
    title=title,
    clause="responses grew from {start:figure} to {end:figure} {unit}",
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion="Take length out of the reward: normalise or penalise it, retrain the reward model "
    "on pairs of equal length, or penalise responses cut off at the limit.",
    explains=(
        *("kl_explosion", "missing_eos", "diversity_collapse", "entropy_collapse"),
        *("not_sharpening", "reward_part_dominance", "persistent_losers", "watched_reward_fall"),
    ),
    of_reward=True,
)
