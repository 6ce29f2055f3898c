"""The columns of every table: name, label, unit, number format and meaning.

Pages and their scripts, charts, exports and ``docs/columns.md`` take names and labels from
here. Columns are float64 unless stated otherwise; NaN means that the log does not contain the
data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from rlreport.text.messages import message
from rlreport.text.numbers import NumberKind

# The end of a column at which problems are: lists are first sorted by it ("" if neither is one)
BadEnd: TypeAlias = Literal["", "low", "high"]

# Names of the columns whose low, and whose high values are bad, in any table
_LOW_IS_BAD = frozenset(
    """
    reward reward_gap valid_reward valid_reward_gap distinct_2 finished
    reward_mean reward_min reward_max reward_gap_mean valid_reward_mean win_rate eos_rate
    group_best_mean pass_at_1 pass_at_k kept_reward_mean all_reward_mean validation_reward_mean
    explained_variance reward_first reward_last reward_gain
    """.split()
)
_HIGH_IS_BAD = frozenset(
    """
    kl_k1 log_ratio_mean kl_k3 kl_k3_mean kl_max response_tokens response_chars
    tool_errors unparsed_calls late_calls markup_turns empty_results unclosed_thinking void_turns
    at_turn_limit seconds lag mismatch_ratio
    kl_k1_mean response_tokens_mean response_chars_mean lose_rate duplicate_rate loop_rate
    zero_variance_groups dropped_share mismatch_k3 mismatch_prob ratio_outside tool_error_share
    unparsed_call_share late_call_share markup_turns_share empty_result_share seconds_mean
    lag_mean lag_max failed_rollouts nan_values losing_streak
    """.split()
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a value that is logged or computed for each token (figure)."""

    name: str  # in exports
    label: str  # on pages; "" if no page shows the column
    unit: str  # "" for none; the label does not contain it
    help: str
    dtype: str = "float64"
    kind: NumberKind = "number"  # its format on pages
    # whether the token view colors values above and below 0 differently
    signed: bool = False
    # in the response list: shown, hidden until the reader selects the column, or never ("")
    listed: Literal["", "shown", "hidden"] = ""
    table: str = ""  # the table that it is a column of

    def __post_init__(self) -> None:
        for name in ("label", "unit", "help"):
            object.__setattr__(self, name, message(getattr(self, name)))

    @property
    def term(self) -> str:
        """Key of its definition; columns of other tables may have the name of one of steps."""
        return self.name if self.table == "steps" else f"{self.table}.{self.name}"

    @property
    def bad_end(self) -> BadEnd:
        if self.name in _LOW_IS_BAD:
            return "low"
        return "high" if self.name in _HIGH_IS_BAD else ""

    @property
    def axis(self) -> str:
        """Title of a chart axis: the help text, followed by the unit if the column has one."""
        return (
            message("{what}, {unit}", what=self.help, unit=self.unit)
            if self.unit
            else self.help
        )

    @property
    def title(self) -> str:
        """Label with unit, such as "KL (nats)"; without a unit only the label."""
        if not self.unit:
            return self.label
        return message("{label} ({unit})", label=self.label, unit=self.unit)


def columns_of(table: str, *columns: Column) -> tuple[Column, ...]:
    """Return the columns of a table."""
    return tuple(replace(column, table=table) for column in columns)


def _by_name(columns: tuple[Column, ...]) -> dict[str, Column]:
    return {column.name: column for column in columns}


_count = partial(Column, kind="count")
_whole = partial(Column, dtype="int64", kind="count")
_share = partial(Column, kind="share")
# Columns of the response list: shown by default (_shown), or only if selected (_asked).
_shown = partial(Column, listed="shown")
_shown_count = partial(Column, kind="count", listed="shown")
_asked = partial(Column, listed="hidden")
_asked_count = partial(Column, kind="count", listed="hidden")


def _inner(name: str, unit: str, help: str, dtype: str = "float64") -> Column:
    """Return a column that exports contain, but no page shows."""
    return Column(name, "", unit, help, dtype)


# The response table: one row per response, sorted by (step, validation, file, offset, sub). The
# response list shows columns in this order
RESPONSE_COLUMNS = columns_of(
    "responses",
    _whole("step", "Step", "", "training step"),
    _whole("n", "#", "", "position in the step, in log order; (step, n) identifies a response"),
    _inner("file", "", "index into the files read", "int32"),
    _inner("line", "", "line number in that file, from 1", "int64"),
    _inner("offset", "bytes", "where the line starts (decompressed bytes)", "int64"),
    _inner("sub", "", "row inside the line, for formats that log several in one", "int32"),
    _inner("has_texts", "", "1 if its texts and tokens are used for quotes and pages", "int8"),
    _inner("prompt_id", "", "index into the prompt table, by cleaned prompt text", "int32"),
    _inner("prompt_hash", "", "hash of the whole cleaned prompt: the same in every run", "uint64"),
    _inner("group", "", "ordinal of the group: same group_id (else prompt) and step", "int32"),
    _inner("group_hash", "", "hash of the logged group_id, 0 without one", "uint64"),
    _inner("rollout", "", "number that the rows of one rollout share"),
    _shown("reward", "Reward", "", "sequence reward"),
    _shown("ref_reward", "Reference reward", "", "reward of the reference on the same prompt"),
    _shown("reward_gap", "Gap", "", "reward − reference reward"),
    _shown("valid_reward", "Second reward", "", "a reward that is not trained on"),
    _shown("ref_valid_reward", "Reference second reward", "", "second reward of the reference"),
    _shown("valid_reward_gap", "Second gap", "", "second reward − that of the reference"),
    _shown("kl_k1", "KL", "nats", "sum over tokens of the log-ratio (k1)"),
    _asked("log_ratio_mean", "Mean log-ratio", "nats", "mean over tokens of logp − ref_logp"),
    _shown("kl_k3", "KL, k3", "nats", "sum over tokens of k3"),
    _asked("kl_k3_mean", "Mean KL, k3", "nats", "mean over tokens of k3"),
    _shown("kl_max", "Largest token KL, k3", "nats", "k3 of the token furthest from the reference"),
    _inner("kl_max_position", "", "position (from 0) of that token"),
    _inner("log_ratio_most", "nats", "largest |logp − ref_logp| of its tokens"),
    _shown_count("response_tokens", "Length", "tokens", "sampled tokens"),
    _whole("response_chars", "Length", "characters", "characters of the cleaned response",
           listed="shown"),
    _inner("structure", "", "structure as bits: 1 list, 2 numbering, 4 headings, 8 parts", "int8"),
    _inner("garbled", "", "1: mixed scripts, broken characters or a wrong encoding; else 0"),
    _inner("answer_format", "", "how its end marks the answer, as bits: 1 <answer>, 2 \\boxed, 4 "
           "\"answer is\" or \"answer:\", 8 ####, 16 an object of JSON", "int8"),
    _inner("other_script", "", "1: a third of it is in other scripts than its prompt, or most "
           "of it in Latin or Greek letters; else 0"),
    _inner("ref_response_chars", "characters", "characters of the reference response"),
    _shown("surprisal_mean", "Surprisal", "nats", "mean over tokens of −logp"),
    _inner("logp_tokens", "tokens", "tokens with a finite logp (weights surprisal_mean)"),
    _inner("end_logp", "nats", "logp of its last sampled token, if that is an end token"),
    _asked("value_mean", "Value", "", "the critic's value, mean over tokens"),
    _inner("value_tokens", "tokens", "tokens with a finite value and return"),
    _inner("value_m2", "", "sum of squared deviations of the values from value_mean"),
    _inner("return_mean", "", "mean of the GAE returns"),
    _inner("return_m2", "", "sum of squared deviations of the returns from return_mean"),
    _asked("advantage_mean", "Advantage", "", "as logged, else by GAE; mean over tokens"),
    _inner("advantage_logged_mean", "", "the logged advantage, if it is the same for all tokens"),
    _asked("value_error_mean", "Value error", "", "value − return, mean over tokens"),
    _inner("value_error_m2", "", "sum of squared deviations of value − return from its mean"),
    _inner("mc_return_mean", "", "mean of the undiscounted sums of rewards to come"),
    _inner("mc_return_m2", "", "sum of squared deviations of those from their mean"),
    _inner("mc_error_mean", "", "value − undiscounted sum of rewards to come, mean over tokens"),
    _inner("mc_error_m2", "", "sum of squared deviations of that from its mean"),
    _asked("rlhf_reward", "Σ token rewards", "", "what the policy is trained on"),
    _asked("non_score_reward", "Non-score reward", "", "Σ token rewards − reward"),
    _asked("distinct_2", "Distinct-2", "", "distinct bigrams / bigrams of the response"),
    _inner("loop_share", "", "length of the response's loop / its words; 0 without a loop"),
    _asked_count("finished", "Finished", "", "1: ended by itself; 0: at a limit or stopped"),
    _shown_count("turns", "Turns", "", "turns that the policy took"),
    _shown_count("tool_calls", "Tool calls", "", "number of tool calls"),
    _shown_count("tool_errors", "Tool errors", "", "tool calls that returned an error"),
    _asked_count("unparsed_calls", "Unparsed calls", "", "tool calls that cannot be parsed"),
    _asked_count("late_calls", "Calls after the answer", "", "tool calls after a final answer"),
    _asked_count("markup_turns", "Markup left", "", "turns whose text still has a call's markup"),
    _asked_count("empty_results", "Empty results", "",
                 "answers of tools that are blank or tell of nothing"),
    _count("env_tokens", "Environment tokens", "tokens",
           "tokens that the policy did not sample; excluded from all figures", listed="shown"),
    _inner("env_trained_tokens", "tokens",
           "tokens of turns that were not sampled, but are in the logged mask of trained tokens"),
    _asked_count("thinking_tokens", "Thinking", "tokens", "sampled up to </think>, tags included"),
    _asked_count("answer_tokens", "Answer", "tokens", "sampled tokens outside the thinking"),
    _asked_count("thinking_chars", "Thinking", "characters",
                 "characters inside <think>, or logged separately"),
    _asked_count("unclosed_thinking", "Unclosed thinking", "", "1: its thinking is never closed"),
    _asked_count("void_turns", "Empty turns", "", "turns with neither call nor answer"),
    _asked_count("at_turn_limit", "At the turn limit", "",
                 "1: stopped at the maximum number of turns"),
    _inner("ending", "", "1 by itself; at a limit: 2 of tokens, 3 of turns, 4 of turns (inferred "
           "from their number); 5 error, 6 aborted, 7 not completed, 8 another reason; 0 unknown",
           "int8"),
    _asked("seconds", "Time", "seconds", "time that the rollout took"),
    _inner("turn_seconds", "seconds", "mean over its turns whose duration is logged"),
    _asked("lag", "Lag", "steps", "step − version of the policy that sampled the response"),
    _asked("mismatch_ratio", "Engine mismatch", "", "mean of exp|trainer − sampler logp|"),
    _inner("mismatch_tokens", "tokens", "tokens with sampler and trainer logprobs"),
    _inner("mismatch_k3", "nats", "mean k3 of trainer against sampler over those tokens"),
    _inner("mismatch_prob", "", "mean |trainer − sampler probability| over those tokens"),
    _inner("rare_tokens", "tokens", "tokens with a sampler logp below −1.5, and a trainer logp"),
    _inner("rare_sampler", "nats", "sum of the sampler logp over those tokens"),
    _inner("rare_trainer", "nats", "sum of the trainer logp over those tokens"),
    _inner("rare_square", "", "sum over those tokens of (sampler logp)²"),
    _inner("rare_product", "", "sum over those tokens of trainer logp × sampler logp"),
    _inner("log_weight", "nats", "sum of trainer − sampler logp: log of the sequence's weight"),
    _inner("ratio_tokens", "tokens", "tokens with old and new logprobs"),
    _inner("ratio_mean", "", "mean of exp(new − old) over those tokens"),
    _inner("ratio_outside", "", "share of those tokens with exp(new − old) outside 1 ± 0.2"),
    _inner("validation", "", "1: of the validation split, 2: branch of a rollout that was not "
           "trained; both are shown but not judged", "int8"),
    _inner("response_hash", "", "hash of the cleaned response text", "uint64"),
    _inner("tokens_fit", "", "1: its tokens and its text are of one response, 0: they are not"),
    _inner("missing_grade", "", "1: reward is null, 2: judge failed, 3: masked, 4: error, 5: "
           "parts are null", "int8"),
    _inner("masked_reward", "", "sequence reward if the trainer masked the response"),
    _asked_count("dropped", "Dropped", "", "1: the trainer left the response out"),
    _inner("correct", "", "1: right, 0: wrong; as logged, else the higher one of two rewards"),
    _inner("label_hit", "", "1: its final answer is its label, 0: it is not; empty if unknown"),
    _inner("nan_values", "", "NaN, infinite or null numbers of required figures", "int32"),
)  # fmt: skip

# The table of steps, exported as ``data/steps.csv``: one row per step, ascending. Columns
# ``validation_…`` summarise the validation responses of a step, all others its training responses.
# The export also has the columns that contain no data
STEP_COLUMNS = columns_of(
    "steps",
    _whole("step", "Step", "", "training step"),
    _whole("responses", "Responses", "", "responses logged"),
    _whole("prompts", "Prompts", "", "distinct prompts"),
    Column("reward_mean", "Reward", "", "mean over responses"),
    Column("reward_std", "Reward, std", "",
           "population standard deviation over responses (n; TRL's metric has n − 1)"),
    Column("reward_min", "Lowest reward", "", "smallest reward"),
    Column("reward_max", "Highest reward", "", "largest reward"),
    Column("ref_reward_mean", "Reference reward", "", "mean over responses of the reference"),
    Column("ref_reward_std", "Reference reward, std", "", "population standard deviation"),
    Column("reward_gap_mean", "Gap", "", "mean of reward − reference reward"),
    Column("valid_reward_mean", "Second reward", "", "mean of the second reward, not trained on"),
    Column("ref_valid_reward_mean", "Reference second reward", "", "mean over reference responses"),
    _share("win_rate", "Win rate", "", "share with reward above the reference's"),
    _share("lose_rate", "Lose rate", "", "share with reward below the reference's"),
    Column("log_ratio_mean", "Mean log-ratio", "nats", "mean over responses of their mean"),
    Column("kl_k1_mean", "KL", "nats per response",
           "mean over responses of the sum of log-ratios (k1)"),
    Column("kl_k1_std", "KL, std", "nats", "population standard deviation over responses"),
    Column("kl_k3_mean", "KL, k3", "nats", "mean over responses of the sum of k3"),
    Column("response_tokens_mean", "Length", "tokens", "mean over responses"),
    Column("response_tokens_std", "Length, std", "tokens", "population standard deviation"),
    Column("response_chars_mean", "Length", "characters", "mean over responses"),
    Column("response_chars_std", "Length, std", "characters", "population standard deviation"),
    Column("ref_response_chars_mean", "Reference length", "characters", "mean over responses"),
    Column("surprisal_mean", "Entropy", "nats per token",
           "mean over all tokens of −logp, which estimates it"),
    Column("value_mean", "Value", "", "mean over all tokens"),
    Column("value_std", "Value, std", "", "population standard deviation over all tokens"),
    Column("return_mean", "Return", "", "mean over all tokens"),
    Column("explained_variance", "Explained variance", "", "1 − Var(return − value) / Var(return)"),
    Column("distinct_2", "Distinct-2 of the step", "", "distinct / all bigrams of the step"),
    _count("bigrams", "Bigrams", "", "all bigrams in the step's responses"),
    _share("duplicate_rate", "Repeated responses", "", "share equal to another of the step"),
    _share("loop_rate", "Loops", "", "share of responses that repeat a few words in a loop"),
    _share("eos_rate", "Finished", "", "share of responses that ended by themselves"),
    Column("rlhf_reward_mean", "Σ token rewards", "", "mean over responses"),
    Column("non_score_reward_mean", "Non-score reward", "", "mean of Σ token rewards − reward"),
    _whole("groups", "Groups", "", "groups with at least two responses"),
    _share("zero_variance_groups", "Zero-variance groups", "", "share whose reward std is < 1e-6"),
    _share("wrong_groups", "All wrong", "", "share of groups that all earn the lowest reward"),
    _share("equal_groups", "Equal", "", "share whose rewards are equal, neither lowest nor best"),
    _share("right_groups", "All right", "", "share of groups that all earn the best reward"),
    _share("dropped_groups", "Dropped groups", "",
           "share whose rewards differ, but which the trainer left out whole"),
    Column("group_std_mean", "Std in group", "", "mean over groups of the reward's std"),
    Column("group_best_mean", "Best of group", "", "mean over groups of the best reward"),
    _share("pass_at_1", "pass@1", "", "mean of c / n over the groups of pass@k; c of n are right"),
    _share("pass_at_k", "pass@k", "", "mean over groups of 1 − C(n − c, k) / C(n, k); k is the "
           "usual n (empty without one), and groups with n < k are left out"),
    Column("advantage_fit", "Advantage and reward", "",
           "correlation of logged advantages with recomputed ones"),
    _share("dropped_share", "Dropped", "", "share of responses that the trainer left out"),
    Column("kept_reward_mean", "Reward, kept", "", "mean over responses that were not dropped"),
    Column("all_reward_mean", "Reward, all", "", "mean over all responses"),
    Column("mismatch_ratio", "Engine mismatch", "", "mean of exp|trainer − sampler logp|"),
    Column("mismatch_k3", "Engine mismatch, k3", "nats", "mean, trainer against sampler"),
    Column("mismatch_prob", "Probability mismatch", "", "mean of |trainer − sampler probability|"),
    Column("ratio_mean", "Importance ratio", "", "mean over tokens of exp(new − old logp)"),
    _share("ratio_outside", "Ratio outside", "", "share of tokens outside 1 ± 0.2"),
    Column("turns_mean", "Turns", "", "number of the policy's turns, mean over responses"),
    Column("turns_p95", "Turns, p95", "", "95th percentile over responses"),
    Column("tool_calls_mean", "Tool calls", "", "mean over responses"),
    Column("tool_calls_p95", "Tool calls, p95", "", "95th percentile over responses"),
    _share("tool_error_share", "Tool errors", "", "share of tool calls whose answer is an error"),
    _share("unparsed_call_share", "Unparsed calls", "",
           "share of tool calls that cannot be parsed"),
    _share("late_call_share", "Calls after the answer", "",
           "share of tool calls that follow a final answer"),
    _share("markup_turns_share", "Markup left", "", "share of turns with a call's markup in text"),
    _share("empty_result_share", "Empty results", "", "share of tool calls answered by no text"),
    Column("turn_tokens_mean", "Tokens per turn", "tokens", "sampled tokens over turns"),
    Column("env_tokens_mean", "Environment tokens", "tokens", "mean over responses"),
    Column("thinking_tokens_mean", "Thinking", "tokens", "mean over responses that think"),
    Column("answer_tokens_mean", "Answer", "tokens", "mean over responses that think"),
    Column("thinking_chars_mean", "Thinking", "characters", "mean over responses that think"),
    _share("unclosed_thinking", "Unclosed thinking", "", "share of thinking that is never closed"),
    _share("at_turn_limit", "At the turn limit", "", "share of conversations stopped by it"),
    Column("seconds_mean", "Time", "seconds", "mean over responses"),
    Column("seconds_p50", "Time, median", "seconds", "median over responses"),
    Column("seconds_p95", "Time, p95", "seconds", "95th percentile over responses"),
    Column("seconds_max", "Time, slowest", "seconds", "largest over responses"),
    Column("lag_mean", "Lag", "steps", "mean of step − version of the policy that sampled"),
    Column("lag_max", "Largest lag", "steps", "largest over responses"),
    _whole("failed_rollouts", "Failed rollouts", "",
           "rollouts that failed before the policy wrote text"),
    _whole("filtered_rollouts", "Filtered rollouts", "", "rollouts not trained on, or not yet"),
    Column("validation_reward_mean", "Validation", "", "mean reward over validation responses"),
    Column("validation_tokens_mean", "Validation length", "tokens",
           "mean over validation responses"),
    Column("validation_chars_mean", "Validation length", "characters",
           "mean over validation responses"),
    Column("incomplete", "Incomplete", "", "fewer responses than the run's usual step", "bool"),
    _whole("nan_values", "NaN values", "", "numbers skipped by the means above"),
)  # fmt: skip

# The table of prompts, exported as ``data/prompts.csv``: one row per distinct prompt
PROMPT_COLUMNS = columns_of(
    "prompts",
    _inner("prompt_id", "", "index of the prompt, by first appearance", "int64"),
    Column("prompt", "Prompt", "", "cleaned prompt text, cut to 400 characters", "object"),
    _inner("validation", "", "1: its responses are of validation", "int64"),
    _whole("responses", "Responses", "", "responses over the run"),
    _whole("steps", "Steps", "", "steps it was seen in"),
    _whole("first_step", "First step", "", "first step it was seen in"),
    _whole("last_step", "Last step", "", "last step it was seen in"),
    Column("reward_first", "First reward", "", "mean in its first step"),
    Column("reward_last", "Last reward", "", "mean in its last step"),
    Column("reward_gain", "Gain", "", "last reward − first reward; unknown if seen in one step"),
    Column("early", "Early", "", "mean over the first third of its steps: share that is right, if "
           "that is known, else reward"),
    Column("late", "Late", "", "the same over the last third"),
    _inner("course", "", "1 improved, 2 regressed, 3 never solved, 4 always solved, 5 no clear "
           "change, 0 seen at one step only", "int64"),
    Column("reward_mean", "Reward", "", "mean over its responses"),
    Column("reward_min", "Worst", "", "smallest reward"),
    Column("reward_max", "Best", "", "largest reward"),
    Column("ref_reward_mean", "Reference reward", "", "mean reward of the reference on it"),
    _share("win_rate", "Win rate", "", "share with reward above the reference's"),
    Column("never_won", "Never won", "", "has reference rewards, but never exceeded them", "bool"),
    _whole("losing_streak", "Not won since", "responses",
           "latest responses without a win against the reference"),
    Column("kl_k1_mean", "KL", "nats", "mean over responses of the sum of log-ratios (k1)"),
    Column("group_std_mean", "Std in group", "", "mean over its groups of the reward's std"),
    _inner("best_step", "", "step of its best response", "int64"),
    _inner("best_n", "", "n of its best response", "int64"),
    _inner("worst_step", "", "step of its worst response", "int64"),
    _inner("worst_n", "", "n of its worst response", "int64"),
)  # fmt: skip

# The table of tokens, exported as ``data/tokens.csv``: one row per distinct token string
TOKEN_COLUMNS = columns_of(
    "tokens",
    Column("token", "Token", "",
           "token as readable text; adjacent pieces of one character are one token", "object"),
    Column("raw", "Raw", "", "token string as logged", "object"),
    _whole("count", "Count", "", "occurrences"),
    _share("kl_share", "Share of KL, k3", "", "share of the run's summed k3"),
    Column("kl_mean", "Mean KL, k3", "nats", "mean over its occurrences"),
    Column("log_ratio_mean", "Mean log-ratio", "nats", "mean of logp − ref_logp"),
    Column("abs_log_ratio_mean", "Mean |log-ratio|", "nats", "mean over its occurrences"),
    _whole("count_first", "First count", "", "occurrences in the first window of steps"),
    _whole("count_last", "Last count", "", "occurrences in the last window of steps"),
    Column("prob_first", "First steps", "", "mean probability in the first window"),
    Column("prob_last", "Last steps", "", "mean probability in the last window"),
    Column("prob_change", "Change", "", "last − first"),
    Column("abs_value_error_mean", "Mean |value − return|", "", "the critic's error"),
    _inner("example_step", "", "step of the sampled response with the largest KL that contains it",
           "Int64"),
    _inner("example_n", "", "position of that response in its step", "Int64"),
    _inner("example_position", "tokens",
           "index of its first occurrence; empty if the response has environment tokens", "Int64"),
)  # fmt: skip

# Numbers shown for each token of a response, in the order of the token view's menu
TOKEN_FIGURES = columns_of(
    "token",
    Column("log_ratio", "Log-ratio", "nats", "logp − ref_logp (k1)", signed=True),
    Column("kl", "KL, k3", "nats", "exp(−r) − 1 + r, r the log-ratio"),
    Column(
        "token_reward", "Token reward", "", "what the policy is trained on", signed=True
    ),
    Column("value", "Value", "", "the critic's value", signed=True),
    Column("advantage", "Advantage", "", "as logged, else by GAE", signed=True),
    Column("return", "Return", "", "value + advantage by GAE", signed=True),
    Column("value_error", "Value error", "", "value − return", signed=True),
    Column("logp", "Logp", "nats", "log-probability under the policy"),
    Column("ref_logp", "Reference logp", "nats", "log-probability under the reference"),
    Column("prob", "Probability", "", "probability under the policy"),
    Column("ref_prob", "Reference probability", "", "probability under the reference"),
    Column("surprisal", "Surprisal", "nats", "−logp"),
    Column("sampler_logp", "Sampler logp", "nats", "log-probability under the sampler"),
)

# Each is a dict of column name -> column, for the table of responses, steps, prompts or tokens
RESPONSE = _by_name(RESPONSE_COLUMNS)
STEP = _by_name(STEP_COLUMNS)
PROMPT = _by_name(PROMPT_COLUMNS)
TOKEN = _by_name(TOKEN_COLUMNS)
