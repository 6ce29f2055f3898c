"""The canonical fields: rows of every log format are converted to rows with these keys.

A field means the same in every log. If a framework logs something else under the name of a
field, that value is kept as the column ``<name>_logged``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Type of a value; ``strings``, ``ids``, ``floats`` and ``mask`` are lists, one entry per token
Kind = Literal[
    "int", "number", "text", "texts", "strings", "ids", "floats", "mask", "bool"
]


# Larger steps are invalid, as float64 cannot represent them exactly
LARGEST_STEP = 2**53
# Larger numbers, either sign, count as missing: their squares may overflow
LARGEST_NUMBER = 1e150


class AssumedStep(int):
    """The step of a row without a logged step: the step in the path of its file, else 0."""


@dataclass(frozen=True, slots=True)
class Field:
    """One canonical field: a key of the rows into which every log format is converted."""

    name: str
    kind: Kind | Literal["object", "turns", "id", "range"]
    meaning: str  # with its unit
    required: bool = False  # whether a row without this field is invalid
    column: bool = False  # whether the response list has a column for the value
    # for docs: from which variable a PPO training loop can log the value
    at_hand: str = ""
    feeds: str = ""  # for docs: what the report computes from the value


# All canonical fields; ``docs/log-format.md`` lists them in this order
FIELDS = (
    Field("step", "int", "training step", required=True,
          at_hand="the loop's counter of policy updates"),
    Field("prompt", "text", "prompt of the policy", required=True,
          at_hand="`tokenizer.decode(query)`; pad tokens, a system prompt are dropped on reading"),
    Field("response", "text", "text that the policy wrote", required=True,
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
    Field("token_rewards", "floats", "input of GAE: KL penalty, plus the reward at the end",
          at_hand="−β·(logp − ref_logp), plus `reward` on the last token",
          feeds="advantages, returns, `rlhf_reward`"),
    Field("sampler_logprobs", "floats", "log-probability that the sampler returned, nats",
          at_hand="what the inference engine returned",
          feeds="the check that sampler and trainer agree"),
    Field("old_logprobs", "floats", "log-probability under the policy before the update, nats",
          at_hand="the log-probabilities that the loss divides by",
          feeds="the importance ratio and its drift"),
    Field("advantages", "floats", "weights of the loss; one number applies to all tokens",
          feeds="the trainer's advantages; without them GAE is used"),
    Field("response_mask", "mask", "1 where the policy sampled the token, 0 where it was given"),
    Field("token_ids", "ids", "token ids, if the log has no token strings"),
    Field("prompt_token_ids", "ids", "token ids of the prompt, if the log has no text"),
    Field("prompt_token_strings", "strings", "token strings of the prompt, with its template",
          feeds="the prompt's tokens in token views; made of the ids if there is a tokenizer"),
    Field("ground_truth_ids", "ids", "token ids of the label, if the log has no text"),
    Field("ref_response", "text", "a sample of the reference for the same prompt",
          at_hand="sampled once, before training",
          feeds="side-by-side reading, differences"),
    Field("ref_reward", "number", "sequence reward of that sample",
          at_hand="its score by the same reward model",
          feeds='win rate, reward gap, "never beat the reference"'),
    Field("valid_reward", "number", "a second reward that is not trained on",
          at_hand="a second reward model, or a rule",
          feeds="a reward curve that the policy is not optimized for"),
    Field("ref_valid_reward", "number", "the reference's second reward"),
    Field("ground_truth", "text", "the data set's label",
          feeds="the label next to the response"),
    Field("group_id", "id", "text or number that the responses of one group share",
          at_hand="the index of the prompt in the batch, for several samples per prompt",
          feeds="groups; without it, equal prompts in a step"),
    Field("rollout_id", "id", "text or number that the rows of one rollout share",
          at_hand="the id of the session, if compacted contexts make it several rows",
          feeds="of the rows with the same id, the last one per file and step counts; the others "
                "are shown as its branches"),
    Field("branch", "text", "what sets a row apart from the rollout's other rows, such as retry",
          column=True),
    Field("reward_parts", "object", "the reward's components: name to number",
          at_hand="the scores that add up to the reward",
          feeds="a chart of each part"),
    Field("finish_reason", "text", "why the response ended, according to the sampler", column=True,
          feeds="whether a response was cut off, unless an EOS token shows it"),
    Field("prompt_turns", "turns", "the prompt's messages: pairs of role and text"),
    Field("turns", "turns", "the conversation after the prompt, in order: one object per turn"),
    Field("agent", "text", "which agent spoke, if there are several", column=True),
    Field("trainable", "bool", "whether that agent is trained; else its row is a branch of its "
          "rollout, and left out without a `rollout_id`"),
    Field("filtered_out", "bool", "whether the rollout was filtered out before training; left out"),
    Field("policy_version", "range", "version of the sampling policy; first and last if it changed",
          column=True),
    Field("errors", "texts", "errors of the rollout"),
    Field("seconds", "number", "duration of the rollout in seconds"),
    Field("split", "text", "train, val or eval", column=True),
)  # fmt: skip

CANONICAL = frozenset(field.name for field in FIELDS)
REQUIRED = tuple(field.name for field in FIELDS if field.required)
REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
# Names of the fields with one float per token
TOKEN_ARRAYS = tuple(field.name for field in FIELDS if field.kind == "floats")

# Canonical fields that get no column in the response list; any other logged scalar does
NO_COLUMN = frozenset(field.name for field in FIELDS if not field.column)

# Dotted name of a logged field that no format recognizes -> type
UnreadFields = dict[str, str]

MOST_UNREAD_FIELDS = 64  # maximum number of unrecognized fields that are reported
_LONGEST_NAME = 80  # characters; longer names are cut


def add_unread_field(fields: UnreadFields, name: str, kind: str) -> None:
    """Add a field with the type ``kind`` to ``fields``, in place.

    Only the MOST_UNREAD_FIELDS alphabetically first names stay, and of several types of a field the
    alphabetically first one: so the result does not depend on the order of rows.
    """
    name = name[:_LONGEST_NAME]
    fields[name] = min(fields.get(name, kind), kind)
    if len(fields) > MOST_UNREAD_FIELDS:
        del fields[max(fields)]


def kind_of(value: object) -> str:
    """Return the type of a value: text, boolean, number, list, or object (also for None)."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):  # before numbers, as a bool is an int, too
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, list | tuple) else "object"
