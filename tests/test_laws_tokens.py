"""Relations of policy, reference and tokens: their columns, and what is just under and over."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.tables import Tables
from tests.reading import read, row, write
from tests.tables_builder import (
    INDEX,
    SIGN,
    STEP,
    STEPS,
    find,
    severity,
    tables,
    title,
)

STEP_NUMBERS = np.arange(STEPS)
RNG = np.random.default_rng(4)
KL: Any = RNG.gamma(2.0, 1.0, len(STEP))


def metrics(**logged: Any) -> Tables:
    """Return a run of which these metrics are logged, one number per step; ``__`` is a slash."""
    named = {name.replace("__", "/"): values for name, values in logged.items()}
    return replace(
        tables(reward=SIGN), metrics=pd.DataFrame({"step": STEP_NUMBERS, **named})
    )


def in_steps(usual: float, other: float, *steps: int) -> Any:
    return np.where(np.isin(STEP_NUMBERS, steps), other, usual)


def of_share(share: float, per: int = 100) -> Any:
    """Return 1 for so many of each step's responses, 0 for the others."""
    return (per * share > INDEX % per).astype(float)


def rewarded(weight: float, noise: float = 0.0) -> Tables:
    """The token rewards hold so much of the reward, less a KL penalty."""
    trained = weight * SIGN - 0.05 * KL + noise * RNG.normal(size=len(STEP))
    return tables(rlhf_reward=trained, kl_k1=KL)


def first_kl(kl: float, later: float = 0.02) -> Tables:
    """The KL per token in step 0, and in all others, of 50 tokens a response."""
    return tables(kl_k1=50 * np.where(STEP == 0, kl, later), response_tokens=50.0)


Claim = tuple[Callable[..., Tables], dict[str | None, list[Any]]]
CLAIMS: dict[str, Claim] = {
    "reference_is_other: the KL per token of the first step": (
        first_kl,
        {None: [0.0, 0.09], "warning": [0.11]},
    ),
    "reference_is_other: of the trainer, without lengths": (
        lambda kl: metrics(objective__kl=kl + 0.001 * STEP_NUMBERS),
        {None: [8.5], "warning": [10.1]},
    ),
    "reference_is_policy: the trainer's own KL": (
        lambda kl: metrics(kl=kl),
        {None: [1e-5], "info": [0.0]},
    ),
    "reference_is_policy: a KL that the trainer does not use": (
        lambda weight: metrics(kl=0.0, actor__kl_coef=weight),
        {None: [0.0], "info": [0.1]},
    ),
    "reward_not_trained: the part of the reward in token rewards": (
        rewarded,
        {None: [1.0, 0.01], "warning": [0.0, -1.0]},
    ),
    "reward_not_trained: the rest of a whitened reward is noise": (
        lambda noise: rewarded(1.0, noise),
        {None: [1.0, 3.0]},
    ),
    "mask_covers_environment: the share of trained tokens": (
        lambda count: tables(response_tokens=100.0, env_trained_tokens=count),
        {None: [0.0, 1.0], "warning": [1.1]},
    ),
    "eos_not_sampled: the share of end tokens": (
        lambda share: tables(end_logp=-0.1 - 12 * of_share(share)),
        {None: [0.0, 0.05], "warning": [0.06]},
    ),
    "eos_not_sampled: their log-probability": (
        lambda logp: tables(end_logp=logp),
        {None: [-8.0], "warning": [-8.1]},
    ),
    "tokens_are_not_text: the share of responses": (
        lambda share: tables(tokens_fit=1 - of_share(share)),
        {None: [0.1], "info": [0.11]},
    ),
    "improbable_duplicates: equal responses of this surprisal per token": (
        lambda surprisal: tables(
            surprisal_mean=surprisal,
            response_tokens=25.0,
            prompt_id=STEP,
            response_hash=7,
        ),
        {None: [1.0], "info": [1.01]},
    ),
    "temperature: the slope": (
        # Two tokens a response, of log-probabilities −2 and −4
        lambda slope: tables(
            rare_tokens=2.0,
            rare_sampler=-6.0,
            rare_trainer=-6.0 * slope - 1.0,
            rare_square=20.0,
            rare_product=20.0 * slope + 3.0,
        ),
        {None: [1.0, 0.9, 1.1], "info": [0.89, 1.11]},
    ),
    "engine_mismatch: one step, and two of forty": (
        lambda *steps: metrics(
            train__token_mult_prob_error=in_steps(1.01, 3.0, *steps)
        ),
        {
            None: [()],
            "info": [(3,), (3, 5)],
            "warning": [(3, 5, 9)],
        },
    ),
    "engine_mismatch: a step at so large a ratio": (
        lambda ratio: metrics(train__token_mult_prob_error=in_steps(1.01, ratio, 7)),
        {None: [1.25], "info": [1.26]},
    ),
    "value_divergence: the trainer's own figure": (
        lambda before, after: metrics(
            critic__vf_explained_var=np.where(STEP_NUMBERS < 20, before, after)
        ),
        {
            None: [(0.4, 0.1), (0.4, -0.9), (-0.5, -3.0)],
            "warning": [(0.4, -1.1)],
        },
    ),
}


def claims() -> Iterator[Any]:
    for claim, (_, expected) in CLAIMS.items():
        for found, values in expected.items():
            for value in values:
                yield pytest.param(claim, found, value, id=f"{claim}-{found}-{value}")


@pytest.mark.parametrize(("claim", "found", "value"), list(claims()))
def test_a_relation_is_violated_beyond_its_limits_only(
    claim: str, found: str | None, value: Any
) -> None:
    make = CLAIMS[claim][0]
    made = make(*value) if isinstance(value, tuple) else make(value)
    assert severity(claim.partition(":")[0], made) == found


def test_a_kl_that_is_negative_only_in_the_middle_is_found_there() -> None:
    is_middle = (STEP >= 12) & (STEP < 20)
    kl = np.where(is_middle, -5.0, 1.0) + 0.1 * SIGN
    finding = find("negative_kl", tables(kl_k1=kl, response_tokens=50.0))
    assert finding.onset is not None
    assert 8 <= finding.onset.low <= 12 <= finding.onset.high
    assert finding.until == 19
    assert "−0.100 nats per token" in title(finding)


def test_steps_in_which_engines_disagree_are_named() -> None:
    finding = find(
        "engine_mismatch", metrics(train__gen_kl_error=in_steps(1e-4, 0.3, 3, 5, 8))
    )
    assert finding.steps == (3, 5, 8)
    assert "steps 3, 5, 8" in title(finding)


def test_a_critic_that_was_bad_for_a_third_of_the_run_is_found() -> None:
    explained = np.where((STEP >= 10) & (STEP < 26), -3.0, 0.5)
    columns = {"value_tokens": 10.0, "value_mean": 0.0, "value_m2": 10.0}
    columns |= {"return_mean": 0.0, "return_m2": 10.0, "value_error_mean": 0.0}
    finding = find(
        "value_divergence", tables(value_error_m2=10 * (1 - explained), **columns)
    )
    assert finding.severity == "warning"
    assert finding.facts["kind"] == "blocks"


def responses(tmp_path: Path, rows: list[dict[str, Any]]) -> pd.DataFrame:
    write(tmp_path / "log.jsonl", rows)
    return read(tmp_path / "log.jsonl").responses


def turn(role: str, start: int, stop: int) -> dict[str, Any]:
    return {"role": role, "text": "words of it", "tokens": [start, stop]}


@pytest.mark.parametrize(
    ("mask", "trained"),
    [
        ([1] * 4 + [0] * 6 + [1] * 4, 0),
        ([1] * 5 + [0] * 4 + [1] * 5, 0),  # of the template
        ([1] * 14, 4),
        ([1] * 4 + [0] * 2 + [1] * 8, 3),
    ],
)
def test_tokens_of_the_environment_in_the_mask_are_counted(
    tmp_path: Path, mask: list[int], trained: int
) -> None:
    turns = [
        turn("assistant", 0, 4),
        turn("tool", 4, 10),
        turn("assistant", 10, 14),
    ]
    logged = row(
        response_tokens=["a"] * 14,
        logprobs=[-1.0] * 14,
        response_mask=mask,
        turns=turns,
    )
    table = responses(tmp_path, [logged])
    assert table["env_trained_tokens"].tolist() == [trained]


@pytest.mark.parametrize(
    ("tokens", "response", "fits"),
    [
        (["ĠThe", "Ġanswer", "Ġis", "Ġ42", "<|im_end|>"], "The answer is 42", 1.0),
        (["The answer", " is 42 indeed"], "The answer is 42", 1.0),
        (
            ["<think>", "It is so", "</think>", "Forty two"],
            "It is so\n\nForty two",
            1.0,
        ),
        (["Another", "Ġtext", "Ġhere"], "The answer is 42", 0.0),
        (["no"], "The answer is 42", np.nan),
        (
            ["▁Caf", "<0xC3>", "<0xA9>", "▁and", "▁croissants"],
            "Café and croissants",
            1.0,
        ),
    ],
)
def test_tokens_are_compared_with_the_text(
    tmp_path: Path, tokens: list[str], response: str, fits: float
) -> None:
    table = responses(tmp_path, [row(response=response, response_tokens=tokens)])
    np.testing.assert_array_equal(table["tokens_fit"], [fits])


def ending_at(lengths: list[int], last: str = "x", **more: Any) -> list[dict[str, Any]]:
    return [
        row(prompt=f"p{i}", response_tokens=["x"] * (length - 1) + [last], **more)
        for i, length in enumerate(lengths)
    ]


@pytest.mark.parametrize(
    ("lengths", "finished"),
    [
        ([33, 47, 64, 64], [1, 1, 0, 0]),
        ([20, 33, 60, 61, 62, 64], [np.nan] * 6),  # no pile
        ([20, 33, 47, 67, 67], [np.nan] * 5),  # no number that people choose
        ([64] * 5, [np.nan] * 5),
        ([2, 5, 8, 8], [np.nan] * 4),
    ],
)
def test_responses_of_exactly_the_limit_are_cut_off(
    tmp_path: Path, lengths: list[int], finished: list[float]
) -> None:
    table = responses(tmp_path, ending_at(lengths))
    np.testing.assert_array_equal(table["finished"], finished)


@pytest.mark.parametrize(
    ("lengths", "finished"),
    [
        ([33, 47, 64, 64], [1, 1, 0, 0]),
        ([20, 33, 40, 40], [1, 1, 1, 1]),  # answers of one form may have 40 tokens
        ([20, 33, 60, 61, 62, 64], [1] * 6),  # no pile
    ],
)
def test_an_end_token_at_the_limit_may_have_been_put_there(
    tmp_path: Path, lengths: list[int], finished: list[float]
) -> None:
    table = responses(tmp_path, ending_at(lengths, "</s>"))
    assert table["finished"].tolist() == finished


def test_an_end_token_that_was_sampled_at_the_limit_counts(tmp_path: Path) -> None:
    rows = ending_at([33, 47, 64, 64], "</s>")
    for one in rows:
        one["logprobs"] = [-0.1] * len(one["response_tokens"])
    assert responses(tmp_path, rows)["finished"].tolist() == [1.0] * 4


def test_a_mismatch_around_its_limit_is_no_disagreement() -> None:
    noise = np.random.default_rng(0).normal(0, 6e-4, len(STEP_NUMBERS))
    around = metrics(train__gen_kl_error=np.abs(1.05e-3 + noise))
    assert severity("engine_mismatch", around) is None
    above = metrics(train__gen_kl_error=np.abs(1.6e-3 + noise))
    assert severity("engine_mismatch", above) == "warning"


def test_a_logged_reason_wins_over_the_length(tmp_path: Path) -> None:
    rows = ending_at([20, 33, 47, 64, 64], finish_reason="stop")
    assert responses(tmp_path, rows)["finished"].tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("logp", "finished"),
    [
        (-0.1, 1.0),
        (-12.0, 0.0),
    ],
)
def test_end_tokens_that_were_not_sampled_are_cut_off(
    tmp_path: Path, logp: float, finished: float
) -> None:
    rows = [
        row(response_tokens=["x", "</s>"], logprobs=[-1.0, end])
        for end in (-0.1, -0.2, logp)
    ]
    table = responses(tmp_path, rows)
    assert table["end_logp"].tolist() == [-0.1, -0.2, logp]
    assert table["finished"].tolist() == [1.0, 1.0, finished]


def test_rare_tokens_are_those_that_both_have_and_the_sampler_calls_rare(
    tmp_path: Path,
) -> None:
    logged = row(
        response_tokens=["a", "b", "c", "d"],
        logprobs=[-1.0, -2.0, None, -5.0],
        sampler_logprobs=[-2.0, -3.0, -4.0, -1.4],
    )
    (rare,) = responses(tmp_path, [logged]).to_dict("records")
    assert rare["rare_tokens"] == 2.0
    assert rare["rare_sampler"] == -5.0
    assert rare["rare_trainer"] == -3.0
    assert rare["rare_square"] == 13.0
    assert rare["rare_product"] == 8.0
