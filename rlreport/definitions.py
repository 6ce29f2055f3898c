"""What figures and words of a report mean: the definitions that readers open.

A figure that the report computes is declared in ``columns.py``, one that a trainer logs is one of
METRICS, a word is one of WORDS. MEANINGS adds what their lines do not say: what the figure tells,
its formula, the limits of checks that judge it, and the role of the trainer's metrics of it. Pages
and ``docs/columns.md`` take it from here. Limits are named, not copied: their values are those of
the run's thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain

from rlreport.columns import (
    PROMPT_COLUMNS,
    RESPONSE_COLUMNS,
    STEP_COLUMNS,
    TOKEN_COLUMNS,
    TOKEN_FIGURES,
    Column,
    columns_of,
)
from rlreport.text.messages import message, translatable

SCHULMAN = translatable("J. Schulman, “Approximating KL divergence” (2020)")
GAE = translatable("Schulman et al. 2016, arXiv:1506.02438")
PPO = translatable("Schulman et al. 2017, arXiv:1707.06347")
PASS_AT_K = translatable("Chen et al. 2021, arXiv:2107.03374")
DISTINCT = translatable("Li et al. 2016, arXiv:1510.03055")
GRPO = translatable("Shao et al. 2024, arXiv:2402.03300")

# What only trainers know: each has the name of its role, see ``metrics.roles``
METRICS = columns_of(
    "metric",
    Column("kl_token", "KL per token", "nats", "the trainer's mean over tokens"),
    Column(
        "entropy_response",
        "Entropy of a response",
        "nats",
        "sum over tokens, mean over responses",
    ),
    Column("loss", "Loss", "", "what the optimizer minimizes, as the trainer logs it"),
    Column(
        "grad_norm",
        "Gradient norm",
        "",
        "L2 norm of the policy's gradient, before it is clipped",
    ),
    Column(
        "clip_fraction",
        "Clipped",
        "",
        "share of tokens whose ratio the loss clips",
        kind="share",
    ),
    Column(
        "length_max",
        "Longest response",
        "tokens",
        "largest length of a response in the step",
    ),
    Column("learning_rate", "Learning rate", "", "of the policy's optimizer"),
    Column(
        "mismatch_lagged",
        "KL of sampler and trainer",
        "nats",
        "mean over tokens, if the sampler's weights may be older",
    ),
    Column(
        "ess",
        "Effective sample size",
        "",
        "share of the responses that count after weighting",
        kind="share",
    ),
    Column(
        "truncated",
        "Cut off",
        "",
        "share of responses cut off at the limit",
        kind="share",
    ),
    Column("failed", "Failed", "", "share of rollouts that failed", kind="share"),
    Column(
        "advantage_max",
        "Largest advantage",
        "",
        "largest advantage of a response in the step",
    ),
)

# Of texts that spread through the responses
TEXTS = columns_of(
    "texts",
    Column(
        "first",
        "First",
        "",
        "share of responses that contain it: the first level of its curve",
        kind="share",
    ),
    Column(
        "peak",
        "Peak",
        "",
        "share of responses that contain it: the highest level",
        kind="share",
    ),
    Column(
        "last",
        "Last",
        "",
        "share of responses that contain it: the last level",
        kind="share",
    ),
    Column("peak_at", "Peak at", "steps", "the steps whose mean is the highest level"),
    Column("last_at", "Last at", "steps", "the steps whose mean is the last level"),
    Column("z", "z", "std errors", "significance of the rise of its share"),
    Column(
        "reward_lift",
        "Reward lift",
        "",
        "reward of responses that contain it, above others of the step",
    ),
)

# Words of the verdict, of charts and of tables
WORDS = columns_of(
    "word",
    Column(
        "onset",
        "Onset",
        "steps",
        "the step at which a figure leaves the level that it had before; the interval says "
        "how sure that is",
    ),
    Column(
        "checkpoint",
        "Checkpoint to keep",
        "step",
        "the last step that is as good as the best one, before anything spoiled the run",
    ),
    Column(
        "level",
        "First, best, last",
        "",
        "means of a few consecutive steps, as single steps are noisy",
    ),
    Column(
        "window",
        "First and last window",
        "steps",
        "the first and the last part of the run, which tables of texts and tokens compare",
    ),
    Column(
        "group",
        "Group",
        "responses",
        "responses to the same prompt in the same step, which group-relative methods "
        "compare with each other",
    ),
    Column(
        "no_signal",
        "Groups without signal",
        "",
        "groups with equal rewards: all their advantages are 0",
    ),
    Column(
        "reference",
        "Reference",
        "",
        "the frozen policy that the KL is measured to, usually the one before training",
    ),
    Column(
        "sampler",
        "Sampler and trainer",
        "",
        "the inference engine that writes responses, and the code that computes the loss; "
        "both should give a token the same probability",
    ),
    Column(
        "validation", "Validation", "", "responses to prompts that are not trained on"
    ),
    Column(
        "reward_part",
        "Part of the reward",
        "",
        "one of the logged scores that add up to the reward",
    ),
    Column(
        "finding",
        "Finding",
        "",
        "what a check found beyond its limits: critical, warning or note",
    ),
    Column("band", "Band", "", "± one standard deviation over the responses of a step"),
)

# Term of what a run's own parts of the reward are
REWARD_PART = "word.reward_part"
# Term of groups whose rewards are equal
NO_SIGNAL = "word.no_signal"

# The figures in the order of the page, with their headings
GROUPS: tuple[tuple[str, tuple[Column, ...]], ...] = (
    (translatable("Run and steps"), STEP_COLUMNS),
    (translatable("Responses"), RESPONSE_COLUMNS),
    (translatable("Tokens"), TOKEN_FIGURES),
    (translatable("Tokens over the run"), TOKEN_COLUMNS),
    (translatable("Texts that spread"), TEXTS),
    (translatable("Prompts"), PROMPT_COLUMNS),
    (translatable("Metrics of the trainer"), METRICS),
    (translatable("Words"), WORDS),
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the definition of a figure says beyond its line.

    Attributes:
        tells: a sentence on what the figure is for, or how to read it.
        formula: in plain text; r is a log-ratio, i counts responses, t tokens, g groups.
        limits: thresholds of checks that judge it, as in a file of thresholds: "CHECK.NAME".
        role: role of the trainer's metrics that measure the same, see ``metrics.roles``.
        source: where it comes from.
    """

    tells: str = ""
    formula: str = ""
    limits: tuple[str, ...] = ()
    role: str = ""
    source: str = ""


_SUM_OF_RATIOS = "Σ_t r_t,  r_t = logp_t − ref_logp_t"
_K3 = "k3(r) = exp(−r) − 1 + r"
_KL_LIMITS = ("kl_explosion.warn", "kl_explosion.critical")
_ENTROPY_LIMITS = (
    "entropy_collapse.share",
    "entropy_collapse.surprisal",
    "entropy_explosion.ratio",
    "entropy_explosion.rise",
)
_LENGTH_LIMITS = (
    "length_hacking.ratio",
    "length_hacking.correlation",
    "length_collapse.ratio",
    "length_collapse.severe",
)

# Term of a figure -> what its line in a table of columns does not say
MEANINGS: Mapping[str, Meaning] = {
    "reward_mean": Meaning(
        translatable(
            "What training raises; whether that is progress, the responses tell."
        ),
        "(1/N) Σ_i reward_i",
        ("reward_collapse.lost", "reward_collapse.z"),
        "reward",
    ),
    "reward_std": Meaning(
        translatable("How much the rewards of a step differ from each other."),
        "sqrt((1/N) Σ_i (reward_i − mean)²)",
        role="reward_std",
    ),
    "reward_gap_mean": Meaning(formula="(1/N) Σ_i (reward_i − ref_reward_i)"),
    "win_rate": Meaning(formula="#{i: reward_i > ref_reward_i} / N"),
    "lose_rate": Meaning(formula="#{i: reward_i < ref_reward_i} / N"),
    "valid_reward_mean": Meaning(
        translatable(
            "A score that the policy is not trained on: if it falls while the reward rises, "
            "the reward is exploited."
        ),
        "(1/N) Σ_i valid_reward_i",
        ("watched_reward_fall.lost", "watched_reward_fall.least"),
    ),
    "validation_reward_mean": Meaning(
        translatable(
            "A score that the policy is not trained on: if it falls while the reward rises, "
            "the reward is exploited."
        ),
        limits=("watched_reward_fall.lost", "watched_reward_fall.least"),
        role="validation",
    ),
    "log_ratio_mean": Meaning(
        formula="(1/N) Σ_i (1/T_i) Σ_t r_it,  r = logp − ref_logp"
    ),
    "kl_k1_mean": Meaning(
        translatable(
            "How far the policy has moved from the reference; it can be negative by chance."
        ),
        "(1/N) Σ_i Σ_t r_it,  r = logp − ref_logp",
        _KL_LIMITS,
        "kl",
        SCHULMAN,
    ),
    "kl_k3_mean": Meaning(
        translatable(
            "Another estimate of the KL: never negative, with less noise while the policies "
            "are near each other."
        ),
        f"(1/N) Σ_i Σ_t k3(r_it),  {_K3}",
        source=SCHULMAN,
    ),
    "response_tokens_mean": Meaning(
        translatable(
            "How long responses are; without the tokens of tools and environments."
        ),
        "(1/N) Σ_i T_i",
        _LENGTH_LIMITS,
        "length",
    ),
    "response_chars_mean": Meaning(limits=_LENGTH_LIMITS),
    "surprisal_mean": Meaning(
        translatable(
            "How undecided the policy is: near 0 it always writes the same, and explores "
            "nothing."
        ),
        "−(1/T) Σ_it logp_it",
        _ENTROPY_LIMITS,
        "entropy",
    ),
    "explained_variance": Meaning(
        translatable(
            "How well the critic predicts returns: 1 is exact, 0 no better than their mean, "
            "below 0 worse."
        ),
        "1 − Var(return − value) / Var(return)",
        (
            "value_divergence.explained",
            "value_divergence.weak",
            "value_divergence.worst",
        ),
        "explained_variance",
    ),
    "value_std": Meaning(limits=("value_divergence.spread",)),
    "return_mean": Meaning(formula="R_t = A_t + V_t", source=GAE),
    "distinct_2": Meaning(
        translatable(
            "How varied the texts of a step are: it falls if responses begin to repeat each "
            "other."
        ),
        "distinct bigrams / bigrams",
        ("diversity_collapse.fall",),
        source=DISTINCT,
    ),
    "duplicate_rate": Meaning(limits=("diversity_collapse.identical",)),
    "loop_rate": Meaning(limits=("loops.rise", "loops.z"), role="loops"),
    "eos_rate": Meaning(
        translatable("The others were cut off at the limit of tokens, or stopped."),
        limits=("missing_eos.rise", "missing_eos.share"),
    ),
    "rlhf_reward_mean": Meaning(
        translatable(
            "The reward that the optimizer sees, with the KL penalty where one is added."
        ),
        "(1/N) Σ_i Σ_t token_reward_it",
        ("reward_not_trained.correlation", "reward_not_trained.slope"),
    ),
    "zero_variance_groups": Meaning(
        translatable(
            "Groups whose rewards are equal have advantages of 0: they give no learning signal."
        ),
        "#{g: std(reward in g) < 1e-6} / G",
        ("zero_variance_groups.share",),
        "zero_variance",
        GRPO,
    ),
    "group_std_mean": Meaning(
        translatable("The size of the signal that group-relative methods learn from."),
        "(1/G) Σ_g std(reward in g)",
        ("group_std_fall.ratio",),
    ),
    "pass_at_1": Meaning(
        translatable("The chance that one response is right."),
        "(1/G) Σ_g c_g / n_g",
        source=PASS_AT_K,
    ),
    "pass_at_k": Meaning(
        translatable(
            "The chance that one of k responses is right; if pass@1 rises and this does not, "
            "answers become sharper, not more."
        ),
        "(1/G) Σ_g (1 − C(n_g − c_g, k) / C(n_g, k))",
        source=PASS_AT_K,
    ),
    "advantage_fit": Meaning(
        limits=("advantage_mismatch.sign", "advantage_outlier.fit"),
        formula="corr(logged advantage, recomputed advantage)",
    ),
    "dropped_share": Meaning(
        limits=("dropped_groups.share", "dropped_groups.rise"), role="dropped"
    ),
    "mismatch_ratio": Meaning(
        translatable(
            "1 if sampler and trainer give the sampled tokens the same probability."
        ),
        "(1/T) Σ_it exp|logp_it − sampler_logp_it|",
        ("engine_mismatch.ratio",),
        "mismatch_ratio",
    ),
    "mismatch_k3": Meaning(
        formula=f"(1/T) Σ_it k3(sampler_logp_it − logp_it),  {_K3}",
        limits=("engine_mismatch.k3",),
        role="mismatch_k3",
        source=SCHULMAN,
    ),
    "mismatch_prob": Meaning(
        formula="(1/T) Σ_it |exp(logp_it) − exp(sampler_logp_it)|",
        limits=("engine_mismatch.prob",),
        role="mismatch_prob",
    ),
    "ratio_mean": Meaning(
        translatable("1 if the policy that is updated is the one that sampled."),
        "(1/T) Σ_it exp(new_logp_it − old_logp_it)",
        ("ratio_drift.low", "ratio_drift.high"),
        "ratio",
        PPO,
    ),
    "ratio_outside": Meaning(
        formula="#{it: |exp(new_logp_it − old_logp_it) − 1| > 0.2} / T",
        limits=("ratio_drift.outside",),
        source=PPO,
    ),
    "turns_mean": Meaning(role="turns"),
    "tool_calls_mean": Meaning(
        limits=("tool_disuse.ratio", "tool_disuse.calls"), role="tool_calls"
    ),
    "tool_error_share": Meaning(
        limits=("tool_errors.rise", "tool_errors.share"), role="tool_errors"
    ),
    "unparsed_call_share": Meaning(
        limits=("unparsed_calls.rise", "unparsed_calls.share")
    ),
    "late_call_share": Meaning(limits=("late_calls.rise", "late_calls.share")),
    "markup_turns_share": Meaning(limits=("markup_turns.rise", "markup_turns.share")),
    "empty_result_share": Meaning(limits=("empty_results.rise",)),
    "unclosed_thinking": Meaning(
        limits=("unclosed_thinking.rise", "unclosed_thinking.share")
    ),
    "at_turn_limit": Meaning(
        limits=("turn_limit.rise", "turn_limit.share"), role="turn_limit"
    ),
    "lag_mean": Meaning(
        translatable("How old the policy was that sampled the responses."),
        limits=("stale_rollouts.lag",),
        role="lag",
    ),
    "failed_rollouts": Meaning(
        limits=("failed_rollouts.rise", "failed_rollouts.share")
    ),
    "responses.reward": Meaning(
        translatable("The score of the whole response, before a KL penalty."),
        role="reward",
    ),
    "responses.reward_gap": Meaning(formula="reward − ref_reward"),
    "responses.kl_k1": Meaning(
        translatable(
            "How much more likely the policy finds this response than the reference does."
        ),
        _SUM_OF_RATIOS,
        _KL_LIMITS,
        "kl",
        SCHULMAN,
    ),
    "responses.log_ratio_mean": Meaning(formula=f"(1/T) {_SUM_OF_RATIOS}"),
    "responses.kl_k3": Meaning(formula=f"Σ_t k3(r_t),  {_K3}", source=SCHULMAN),
    "responses.kl_k3_mean": Meaning(
        formula=f"(1/T) Σ_t k3(r_t),  {_K3}", source=SCHULMAN
    ),
    "responses.kl_max": Meaning(formula="max_t k3(r_t)", source=SCHULMAN),
    "responses.surprisal_mean": Meaning(
        translatable(
            "How unlikely the response was for the policy itself; its mean estimates the "
            "entropy."
        ),
        "−(1/T) Σ_t logp_t",
    ),
    "responses.advantage_mean": Meaning(
        translatable(
            "How much better than expected: tokens with a positive advantage become more "
            "likely."
        ),
        "A_t = Σ_l (γλ)^l δ_{t+l},  δ_t = token_reward_t + γ V_{t+1} − V_t",
        source=GAE,
    ),
    "responses.value_error_mean": Meaning(formula="(1/T) Σ_t (V_t − R_t)"),
    "responses.rlhf_reward": Meaning(formula="Σ_t token_reward_t"),
    "responses.non_score_reward": Meaning(
        translatable("What the KL penalty, or a bonus, adds to the reward."),
        "Σ_t token_reward_t − reward",
    ),
    "responses.distinct_2": Meaning(
        formula="distinct bigrams / bigrams", source=DISTINCT
    ),
    "responses.response_tokens": Meaning(limits=("length_collapse.tokens",)),
    "responses.mismatch_ratio": Meaning(
        translatable(
            "1 if sampler and trainer give the sampled tokens the same probability."
        ),
        "(1/T) Σ_t exp|logp_t − sampler_logp_t|",
        ("engine_mismatch.ratio",),
    ),
    "responses.lag": Meaning(limits=("stale_rollouts.lag",)),
    "token.log_ratio": Meaning(
        translatable(
            "Above 0 the policy finds the token more likely than the reference does."
        ),
        "r = logp − ref_logp",
        source=SCHULMAN,
    ),
    "token.kl": Meaning(
        translatable(
            "Another estimate of the KL: never negative, with less noise while the policies "
            "are near each other."
        ),
        _K3,
        source=SCHULMAN,
    ),
    "token.advantage": Meaning(
        translatable(
            "How much better than expected: tokens with a positive advantage become more "
            "likely."
        ),
        "A_t = Σ_l (γλ)^l δ_{t+l},  δ_t = token_reward_t + γ V_{t+1} − V_t",
        source=GAE,
    ),
    "token.return": Meaning(formula="R_t = A_t + V_t", source=GAE),
    "token.value_error": Meaning(formula="V_t − R_t"),
    "token.prob": Meaning(formula="exp(logp)"),
    "token.ref_prob": Meaning(formula="exp(ref_logp)"),
    "token.surprisal": Meaning(formula="−logp"),
    "tokens.kl_share": Meaning(
        translatable(
            "Which tokens the policy's distance from the reference is made of."
        ),
        "Σ k3 of this token / Σ k3 of all tokens",
    ),
    "tokens.prob_change": Meaning(formula="prob_last − prob_first"),
    "texts.last": Meaning(
        limits=("reward_hacking_token.share", "reward_hacking_token.held")
    ),
    "texts.z": Meaning(limits=("reward_hacking_token.z",)),
    "texts.reward_lift": Meaning(
        translatable("What the reward pays for the text, or for what comes with it."),
        limits=("reward_hacking_token.lift",),
    ),
    "prompts.reward_gain": Meaning(formula="reward_last − reward_first"),
    "prompts.kl_k1_mean": Meaning(
        formula="(1/N) Σ_i Σ_t r_it,  r = logp − ref_logp", source=SCHULMAN
    ),
    "metric.kl_token": Meaning(
        translatable("How far the policy has moved from the reference, per token."),
        limits=("kl_explosion.warn_token", "kl_explosion.critical_token"),
        role="kl_token",
    ),
    "metric.entropy_response": Meaning(role="entropy_response"),
    "metric.loss": Meaning(
        translatable(
            "In policy-gradient methods its value says little: it does not fall as the policy "
            "improves."
        ),
        role="loss",
    ),
    "metric.grad_norm": Meaning(
        translatable("A spike is a bad update; 0 is none."),
        "sqrt(Σ_p |∂loss/∂p|²)",
        ("gradient_explosion.times", "gradient_explosion.lasting", "no_updates.share"),
        "grad_norm",
    ),
    "metric.clip_fraction": Meaning(
        limits=("ratio_drift.outside",), role="clip_fraction", source=PPO
    ),
    "metric.length_max": Meaning(role="length_max"),
    "metric.learning_rate": Meaning(role="learning_rate"),
    "metric.mismatch_lagged": Meaning(
        limits=("engine_mismatch.lagged",), role="mismatch_lagged"
    ),
    "metric.ess": Meaning(
        formula="(Σ_i w_i)² / (N Σ_i w_i²)",
        limits=("off_policy_weights.ess",),
        role="ess",
    ),
    "metric.truncated": Meaning(
        limits=("missing_eos.rise", "missing_eos.share"), role="truncated"
    ),
    "metric.failed": Meaning(
        limits=("failed_rollouts.rise", "failed_rollouts.share"), role="failed"
    ),
    "metric.advantage_max": Meaning(
        limits=("advantage_outlier.far",), role="advantage_max"
    ),
    "word.window": Meaning(limits=("trend.share", "trend.least_steps")),
    NO_SIGNAL: Meaning(limits=("zero_variance_groups.share",), source=GRPO),
    "word.sampler": Meaning(limits=("engine_mismatch.ratio", "engine_mismatch.k3")),
}

_NO_MEANING = Meaning()


@cache
def defined() -> Mapping[str, Column]:
    """Return term -> column of all figures and words that a page may show, in page order."""
    groups = [group for _, group in GROUPS]
    columns = chain.from_iterable(groups)
    return {column.term: column for column in columns if column.label}


@cache
def terms_of_roles() -> Mapping[str, str]:
    """Return role of a trainer's metric -> term of the figure of steps that it measures."""
    found: dict[str, str] = {}
    for term, meaning in MEANINGS.items():
        if meaning.role:
            found.setdefault(meaning.role, term)
    return found


def meaning_of(term: str) -> Meaning:
    return MEANINGS.get(term, _NO_MEANING)


def sentence_of(term: str) -> str:
    """Return what a figure is, as a sentence."""
    return message("{one:capital}.", one=defined()[term].help)
