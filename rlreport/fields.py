"""The fields of a canonical row: one list for reading, formats, mapping and docs.

A field of this list means the same in every log. A column of another framework that happens
to have such a name means something else there, and becomes ``<name>_logged``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "number", "text", "texts", "strings", "ids", "floats", "mask", "bool"]
"""``strings``, ``ids``, ``floats`` and ``mask`` are lists of one entry a token (T)."""


LARGEST_STEP = 2**53
"""A larger step is no step: float64 does not hold it exactly."""


@dataclass(frozen=True, slots=True)
class Field:
    """One canonical field.

    Attributes:
        name: key in the row.
        kind: type of its value; ``object`` and the like have a shape that ``meaning`` tells.
        meaning: in words, with its unit.
        required: a row without it is none.
        column: its value is also a column of the response list, as further scalars are.
        at_hand: where a PPO trainer has it, for docs.
        feeds: what the report shows of it, for docs.
    """

    name: str
    kind: Kind | Literal["object", "turns", "id", "range"]
    meaning: str
    required: bool = False
    column: bool = False
    at_hand: str = ""
    feeds: str = ""


FIELDS = (
    Field("step", "int", "training step", required=True,
          at_hand="the loop's counter of policy updates"),
    Field("prompt", "text", "text that the policy was given", required=True,
          at_hand="`tokenizer.decode(query)`; pad tokens, a system prompt are dropped on reading"),
    Field("response", "text", "text that it wrote", required=True,
          at_hand="`tokenizer.decode(response)`, special tokens kept or not"),
    Field("reward", "number", "sequence reward", required=True,
          at_hand="the reward model's score before the KL penalty"),
    Field("response_tokens", "strings", "token strings",
          at_hand="`tokenizer.convert_ids_to_tokens(response)`",
          feeds="token views, token and n-gram tables, lengths in tokens"),
    Field("logprobs", "floats", "log-probability of each token under the policy, nats",
          at_hand="log-softmax of the sampled tokens when the rollout was scored",
          feeds="surprisal, KL, probabilities"),
    Field("ref_logprobs", "floats", "log-probability under the reference, nats",
          at_hand="the same under the frozen initial policy",
          feeds="log-ratio, KL, everything against the reference"),
    Field("values", "floats", "the critic's value at each token, in units of the reward",
          at_hand="the critic's outputs at the response's tokens",
          feeds="advantages, returns, explained variance"),
    Field("token_rewards", "floats", "what GAE is run on: KL penalty, plus the reward at the end",
          at_hand="−β·(logp − ref_logp), plus `reward` on the last token",
          feeds="advantages, returns, KL coefficient, `rlhf_reward`"),
    Field("sampler_logprobs", "floats", "log-probability that the sampler returned, nats",
          at_hand="what the inference engine returned",
          feeds="the check that sampler and trainer agree"),
    Field("old_logprobs", "floats", "log-probability under the policy before the update, nats",
          at_hand="the log-probabilities that the loss divides by",
          feeds="the importance ratio and its drift"),
    Field("advantages", "floats", "what the loss was weighted with; one number is for all",
          feeds="the trainer's own; else they are recomputed by GAE"),
    Field("response_mask", "mask", "1 where the policy sampled the token, 0 where it was given"),
    Field("token_ids", "ids", "token ids, if the log has no token strings"),
    Field("prompt_token_ids", "ids", "token ids of the prompt, if the log has no text"),
    Field("ground_truth_ids", "ids", "token ids of the label, if the log has no text"),
    Field("ref_response", "text", "a sample of the reference for the same prompt",
          at_hand="sampled once, before training",
          feeds="side-by-side reading, differences"),
    Field("ref_reward", "number", "sequence reward of that sample",
          at_hand="its score by the same reward model",
          feeds='win rate, reward gap, "never beat the reference"'),
    Field("valid_reward", "number", "a second reward that is only watched",
          at_hand="a second reward model, or a rule",
          feeds="a curve that the policy cannot have learnt to cheat"),
    Field("ref_valid_reward", "number", "the reference's second reward"),
    Field("ground_truth", "text", "the data set's label",
          feeds="the label beside the response"),
    Field("group_id", "id", "text or number that the responses of one group share",
          at_hand="the index of the prompt in the batch, for several samples a prompt",
          feeds="groups; without it, equal prompts in a step"),
    Field("reward_parts", "object", "the reward's components: name to number",
          at_hand="the scores that the reward is the sum of",
          feeds="a chart of each part"),
    Field("finish_reason", "text", "why the response ended, as the sampler says", column=True,
          feeds="whether a response was cut off, unless an EOS token shows it"),
    Field("prompt_turns", "turns", "the prompt's messages: pairs of role and text"),
    Field("turns", "turns", "the conversation after the prompt, in order: one object a turn"),
    Field("agent", "text", "which seat spoke, where several agents take part", column=True),
    Field("trainable", "bool", "whether that seat is trained; else its rows are left out"),
    Field("policy_version", "range", "version of the sampling policy, or first and last version",
          column=True),
    Field("errors", "texts", "what went wrong in the rollout"),
    Field("seconds", "number", "seconds that the rollout took"),
    Field("split", "text", "train, val or eval", column=True),
)  # fmt: skip
"""In the order in which docs list them."""

CANONICAL = frozenset(field.name for field in FIELDS)
REQUIRED = tuple(field.name for field in FIELDS if field.required)
TOKEN_ARRAYS = tuple(field.name for field in FIELDS if field.kind == "floats")
"""Fields that hold one float per token."""

NO_COLUMN = frozenset(field.name for field in FIELDS if not field.column)
"""Fields that are no column of the response list; every other scalar of a row is one."""

NotTaken = dict[str, tuple[int, str]]
"""Fields that nobody read: name, with dots into objects, to its times and its values' type."""

MOST_NOT_TAKEN = 64
_LONGEST_NAME = 80


def count_not_taken(found: NotTaken, name: str, kind: str, times: int = 1) -> None:
    """Count a field that was not taken; of several types the first by name is kept."""
    name = name[:_LONGEST_NAME]
    known = found.get(name, (0, kind))
    found[name] = (known[0] + times, min(known[1], kind))
    if len(found) > 2 * MOST_NOT_TAKEN:
        trim_not_taken(found)


def trim_not_taken(found: NotTaken) -> None:
    """Keep the first names in alphabetical order, which are the same however parts are merged."""
    for name in sorted(found)[MOST_NOT_TAKEN:]:
        del found[name]


def kind_of(value: object) -> str:
    """Return the type of a logged value in a word."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, list | tuple) else "object"
