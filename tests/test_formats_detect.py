"""Files are recognised, or refused with a reason; what nobody foresaw can be mapped."""

import itertools
import json
import os
import pickle
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rlreport.errors import MissingExtraError, UsageError
from rlreport.formats.containers import read_objects
from rlreport.formats.mapping import suggest
from rlreport.formats.registry import (
    RowError,
    RowReader,
    Where,
    detect,
    format_by_id,
    formats,
    refusal,
)
from rlreport.formats.token_names import TokenNames

Row = dict[str, Any]
OTHER_FILES = 100


def first_objects(path: Path) -> list[Row]:
    try:
        return list(itertools.islice(read_objects(path.open("rb"), "json"), 20))
    except RowError:
        return []


def other_files() -> Iterator[Path]:
    """Yield JSON and JSONL files of this machine's installed software."""
    places = dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/lib", "/usr/share"))
    for place in places:
        for folder, folders, names in os.walk(place):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if path.suffix in (".json", ".jsonl") and path.is_file():
                    yield path


@pytest.mark.untraced
def test_no_other_file_of_this_machine_is_taken_for_rollouts() -> None:
    files = list(itertools.islice(other_files(), 2 * OTHER_FILES))
    metadata: list[tuple[str, list[Row]]] = [
        ("metadata_of_package.json", [dict(package.metadata.json)])
        for package in distributions()
    ]
    read = [
        (path.name, first_objects(path))
        for path in files
        if path.stat().st_size < 2_000_000
    ]
    assert len(read) + len(metadata) >= OTHER_FILES
    for name, objects in read + metadata:
        assert detect(name, objects) is None, name
        assert refusal(name, objects)


@pytest.mark.parametrize(
    ("name", "obj", "reason"),
    [
        ("exp.jsonl", {"step": 1, "data": {"actor/loss": 0.1}}, "trainer metrics"),
        ("metrics.jsonl", {"step": 1, "reward": 0.1, "loss": 0.2}, "trainer metrics"),
        (
            "trainer_state.json",
            {"log_history": [], "global_step": 1},
            "trainer metrics",
        ),
        ("state.json", {"log_history": [{"step": 1}], "epoch": 1.0}, "trainer metrics"),
        ("empty.jsonl", None, "no JSON object"),
        ("sft.jsonl", {"prompt": "q", "completion": "a"}, "no known log format"),
        (
            "pairs.jsonl",
            {"prompt": "q", "chosen": "a", "rejected": "b"},
            "no known log format",
        ),
        (
            "train.jsonl",
            {"question": "q", "answer": "a", "score": 1.0},
            "--map response=answer",
        ),
        (
            "null.jsonl",
            {"step": 0, "prompt": "q", "response": None, "reward": 1.0},
            "no value in the first rows for `response`",
        ),
        (
            "typed.jsonl",
            {"step": 0, "prompt": "q", "response": "a", "reward": [1.0]},
            "another type than expected in the first rows for `reward`",
        ),
    ],
)
def test_refusals_say_why(name: str, obj: Row | None, reason: str) -> None:
    objects = [] if obj is None else [obj]
    assert detect(name, objects) is None
    assert reason in refusal(name, objects)


def test_words_of_a_vocabulary_are_no_fields() -> None:
    words = ["input", "output", "score", "step", "prompt", "response", "reward"]
    vocabulary = {word: number for number, word in enumerate(words)}
    vocabulary |= {f"w{number}": number + len(words) for number in range(500)}
    assert detect("checkpoint-10/vocab.json", [vocabulary]) is None
    assert "vocabulary" in refusal("checkpoint-10/vocab.json", [vocabulary])
    # A row with as many numbers beside its texts is a rollout.
    row = vocabulary | {"input": "2+2?", "output": "4"}
    assert detect("rows.jsonl", [row]) is not None


def test_splits_come_from_the_path() -> None:
    assert format_by_id("rlboard").split("evals/rank_0.jsonl") == "eval"
    assert format_by_id("rlboard").split("retrieval/rank_0.jsonl") is None
    assert format_by_id("art").split("trajectories/train/0001.parquet") == "train"
    assert format_by_id("skyrl").split("global_step_1_evals/gsm8k.jsonl") == "eval"


def test_every_format_describes_itself_and_travels_to_workers() -> None:
    for identity, form in formats().items():
        assert form.id == identity
        assert form.description and form.files
        assert form.container in (
            "lines",
            "json",
            "parquet",
            "torch",
            "inspect",
            "sqlite",
        )
        assert pickle.loads(pickle.dumps(RowReader(form)))


ODD = {
    "meta": {"train": {"it": 4}},
    "outs": [{"text": "4"}],
    "q": "2+2?",
    "score": "0.5",
    "n": 3,
}
MAPPING = {
    "step": "meta.train.it",
    "response": "outs.0.text",
    "prompt": "q",
    "reward": "score",
}


def test_unforeseen_rows_are_mapped_by_dotted_paths() -> None:
    found = detect("x.jsonl", [ODD], mapping=MAPPING)
    assert found is not None and found.format.id == "mapped"
    row = next(RowReader(found.format)(ODD, Where("x.jsonl")))
    assert row == {"step": 4, "response": "4", "prompt": "2+2?", "reward": 0.5, "n": 3}
    with pytest.raises(RowError, match="no response"):
        next(found.format.rows({"q": "2+2?"}, Where("x.jsonl")))


def test_a_mapping_adds_to_a_known_format() -> None:
    obj = {
        "input": "q",
        "output": "a",
        "gts": "4",
        "score": 1.0,
        "step": 5,
        "other": 0.25,
    }
    found = detect("5.jsonl", [obj], mapping={"valid_reward": "other"})
    assert found is not None
    row = next(found.format.rows(obj, Where("5.jsonl")))
    assert (row["response"], row["reward"], row["valid_reward"]) == ("a", 1.0, 0.25)
    assert found.format.split("val/5.jsonl") == "val"


def test_the_step_can_come_from_the_path() -> None:
    obj = {"prompt": "q", "response": "a", "reward": 1.0}
    found = detect("it_07/out.jsonl", [obj], step_from_path=r"it_(?P<step>\d+)")
    assert found is not None
    assert next(found.format.rows(obj, Where("it_07/out.jsonl")))["step"] == 7
    assert next(found.format.rows(obj, Where("elsewhere/out.jsonl")))["step"] == 0
    bare = {"input": "q", "output": "a", "gts": "4", "score": 1.0}
    verl = detect("it_07/out.jsonl", [bare], step_from_path=r"it_(\d+)")
    assert verl is not None
    assert next(verl.format.rows(bare, Where("it_07/out.jsonl")))["step"] == 7


def test_slips_in_a_mapping_are_named() -> None:
    with pytest.raises(UsageError, match="unknown field 'rewrd'"):
        detect("x.jsonl", [ODD], mapping={"rewrd": "score"})
    with pytest.raises(UsageError, match="not a regular expression"):
        detect("x.jsonl", [ODD], mapping=MAPPING, step_from_path="(")
    with pytest.raises(UsageError, match="no group"):
        detect("x.jsonl", [ODD], mapping=MAPPING, step_from_path="step")
    assert detect("x.jsonl", [ODD], mapping={"reward": "no.such.path"}) is None


def test_likely_mappings_are_suggested() -> None:
    obj = {
        "global_step": 3,
        "query": "q",
        "data": {"completion": "a"},
        "score": 0.5,
        "uid": "u",
    }
    assert suggest([obj]) == {
        "step": "global_step",
        "prompt": "query",
        "response": "data.completion",
        "reward": "score",
        "group_id": "uid",
    }
    found = detect("x.jsonl", [obj], mapping=suggest([obj]))
    assert found is not None
    assert next(found.format.rows(obj, Where("x.jsonl")))["response"] == "a"
    assert suggest([{"name": "package", "version": "1.0"}]) == {}


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        token: i for i, token in enumerate([*alphabet, "Ġh", "Ġhi", "<|im_end|>"])
    }
    made = Tokenizer(models.BPE(vocabulary, [("Ġ", "h"), ("Ġh", "i")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return str(path)


def test_ids_are_named_by_a_tokenizer_file(tokenizer: str) -> None:
    names = pickle.loads(pickle.dumps(TokenNames(tokenizer)))
    ids = [*Tokenizer.from_file(tokenizer).encode(" hi 你").ids, 258]
    row = names.fill(
        {"token_ids": ids, "prompt_token_ids": ids, "ground_truth_ids": ids[:1]}
    )
    assert row["response_tokens"][0] == "Ġhi"
    assert row["response_tokens"][-1] == "<|im_end|>"
    assert row["response"] == row["prompt"] == " hi 你"
    assert row["ground_truth"] == " hi"


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(UsageError, match=r"t\.json is not a tokenizer file"):
        TokenNames(str(tmp_path / "t.json"))


@pytest.mark.parametrize("module", ["tokenizers", "pyarrow"])
def test_a_missing_extra_is_named_with_its_command(module, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "x.parquet").touch()
    with pytest.raises(
        MissingExtraError, match=r"pip install 'rlreport\[(tokenizer|parquet)\]'"
    ):
        if module == "pyarrow":
            next(read_objects((tmp_path / "x.parquet").open("rb"), "parquet"))
        else:
            TokenNames(str(tmp_path / "never_loaded.json"))


KEYS = st.sampled_from(
    [
        "step",
        "prompt",
        "response",
        "completion",
        "reward",
        "input",
        "output",
        "score",
        "gts",
        "content",
        "rewards",
        "token_ids",
        "input_lengths",
        "loss_mask",
        "inference_logprobs",
        "trainer_logprobs",
        "traces",
        "nodes",
        "example_id",
        "task_id",
        "head_version",
        "responses",
        "scores",
        "prompt_tokens",
        "response_tokens",
        "trajectories",
        "task_hash",
        "messages",
        "group_index",
        "advantage",
        "uid",
        "metrics",
        "mask",
        "message",
        "role",
        "data",
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


OBJECTS = st.dictionaries(KEYS, VALUES, max_size=8)


@pytest.mark.untraced
@given(st.lists(OBJECTS, max_size=3), st.integers(1, 3))
def test_odd_objects_yield_rows_or_a_reason_in_every_format(
    objects: list[Row], step: int
) -> None:
    detect(f"completions_{step}.jsonl", objects)
    assert refusal("x.jsonl", objects)
    json.dumps(suggest(objects))
    for form in formats().values():
        form.match(f"completions_{step:05d}.parquet", objects)
        for obj in objects:
            try:
                read = list(form.rows(obj, Where(f"step_{step}/x.jsonl", 1)))
            except RowError as error:
                assert str(error)
            else:
                assert all(isinstance(row, dict) for row in read)
