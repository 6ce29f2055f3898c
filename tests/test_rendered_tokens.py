"""The tokens of a prompt, with its template, in the token view: of ids, if there is a tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rlreport import build
from rlreport.formats.token_names import TokenNames
from rlreport.pages.token_data import pack_tokens
from rlreport.read.rollouts import PROMPT_EDGE
from rlreport.read.token_columns import TokenColumns
from tests.browser import serious, visiting
from tests.pages_reading import packed_tokens, unpack
from tests.reading import read, row, write

SPECIAL = ("<|bos|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "<|bos|><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tokenizer file: a token for each byte, and special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def logged(
    tokenizer: Path, prompts: Sequence[str], **fields: Any
) -> list[dict[str, Any]]:
    """Return rows with the ids of these prompts, in the template, and of a response."""
    encode = Tokenizer.from_file(str(tokenizer)).encode
    rows = []
    for prompt in prompts:
        ids = encode("Four.<|im_end|>").ids
        one = row(
            prompt=prompt,
            response="Four.",
            prompt_token_ids=encode(TEMPLATE.format(prompt)).ids,
            token_ids=ids,
            logprobs=[-0.5] * len(ids),
            **fields,
        )
        rows.append(one)
    return rows


def prompts(log: Path, **options: Any) -> list[tuple[list[str], int]]:
    """Return the texts of each prompt's tokens on pages, and the number of all its tokens."""
    scan = read(log, **options)
    columns = TokenColumns.read(scan.rollouts, range(len(scan.responses)))
    texts = [text for text, _ in columns.vocabulary]
    found = []
    for one in columns.prompts:
        strings = [texts[number] for number in one.ids]
        found.append((strings, one.size))
    return found


def test_a_tokenizer_names_the_prompts_tokens_and_its_template(
    tokenizer: Path, tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", logged(tokenizer, ["2 + 2 = 你"]))
    ((tokens, count),) = prompts(log, tokenizer=str(tokenizer))
    assert "".join(tokens) == TEMPLATE.format("2 + 2 = 你")
    assert tokens[:2] == ["<|bos|>", "<|im_start|>"]
    assert count == len(tokens)
    (one,) = read(log, tokenizer=str(tokenizer)).rollouts.read([0])
    assert one.prompt == "2 + 2 = 你"


def test_without_a_tokenizer_ids_say_nothing_and_are_left_out(
    tokenizer: Path, tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", logged(tokenizer, ["2 + 2"]))
    assert prompts(log) == []


def test_logged_token_strings_need_no_tokenizer(tmp_path: Path) -> None:
    fields = {"response_tokens": ["Hi"], "logprobs": [-0.5]}
    log = write(
        tmp_path / "a.jsonl", [row(prompt_token_strings=["<s>", "Say"], **fields)]
    )
    assert prompts(log) == [(["<s>", "Say"], 2)]


@pytest.mark.parametrize("strings", [[1], "text", []])
def test_what_are_no_token_strings_is_left_out(tmp_path: Path, strings: object) -> None:
    fields = {"response_tokens": ["Hi"], "logprobs": [-0.5]}
    log = write(tmp_path / "a.jsonl", [row(prompt_token_strings=strings, **fields)])
    assert prompts(log) == []


def test_of_a_long_prompt_both_ends_are_kept(tmp_path: Path) -> None:
    strings = [f"t{number}" for number in range(2 * PROMPT_EDGE + 5)]
    fields = {"response_tokens": ["Hi"], "logprobs": [-0.5]}
    log = write(tmp_path / "a.jsonl", [row(prompt_token_strings=strings, **fields)])
    shown = strings[:PROMPT_EDGE] + strings[-PROMPT_EDGE:]
    assert prompts(log) == [(shown, len(strings))]


def test_responses_to_one_prompt_share_its_tokens_in_a_page(tmp_path: Path) -> None:
    strings = [f"t{number}" for number in range(1000)]
    fields = {"response_tokens": ["x"], "logprobs": [-0.5]}
    rows = [row(prompt_token_strings=strings, **fields)] * 8
    scan = read(write(tmp_path / "a.jsonl", rows))
    one = TokenColumns.read(scan.rollouts, range(1))
    eight = TokenColumns.read(scan.rollouts, range(8))
    (prompt,) = eight.prompts
    assert prompt.n == list(range(8))
    # Eight responses take hardly more than one.
    assert len(pack_tokens(eight, 3)) < 1.2 * len(pack_tokens(one, 3))


def test_a_prompt_is_named_once_for_the_rows_of_its_group(tokenizer: Path) -> None:
    names = TokenNames(str(tokenizer))
    first = names.fill({"prompt_token_ids": [1, 2], "prompt": "p"})
    second = names.fill({"prompt_token_ids": [1, 2], "prompt": "p"})
    other = names.fill({"prompt_token_ids": [3], "prompt": "p"})
    assert first["prompt_token_strings"] is second["prompt_token_strings"]
    assert len(other["prompt_token_strings"]) == 1


@pytest.fixture(scope="module")
def step(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rendered")
    masked = {"response_mask": [1, 1, 0, 0, 1, 1]}
    rows = logged(tokenizer, ["2 + 2", "2 + 2"]) + logged(tokenizer, ["x"], **masked)
    rows += [row(response_tokens=["Hi"], logprobs=[-0.5])]
    rows += logged(tokenizer, ["word " * 2000])
    write(folder / "logs" / "a.jsonl", rows)
    build(folder / "logs", folder / "report", tokenizer=tokenizer, workers=1)
    return folder / "report" / "steps" / "0.html"


def opened(page: Page) -> str:
    """Unfold the prompt's tokens by the keyboard, and return their text."""
    page.focus(".prompt-tokens > summary")
    page.keyboard.press("Enter")
    return page.locator(".prompt-tokens .token-text").inner_text()


def test_the_token_view_has_the_prompts_tokens_folded(browser: Any, step: Path) -> None:
    with visiting(browser, step, "#r=0") as page:
        page.wait_for_selector(".prompt-tokens")
        summary = page.inner_text(".prompt-tokens > summary")
        assert summary.endswith("prompt tokens, not trained on")
        assert not page.locator(".prompt-tokens .token-text").count()
        text = opened(page)
        assert text.startswith("<|bos|><|im_start|>system↵\nBe␣brief.<|im_end|>")
        assert "user↵\n2␣+␣2<|im_end|>" in text
        # A token for each special one, and for each byte of the rest
        rest = TEMPLATE.format("2 + 2")
        for special in SPECIAL:
            rest = rest.replace(special, "!")
        assert page.locator(".prompt-tokens .t").count() == len(rest)
        assert summary.startswith(f"{len(rest)} ")
        marked = page.locator(".prompt-tokens .t.special").all_inner_texts()
        assert marked.count("<|im_end|>") == 2
        assert serious(page) == []
        page.keyboard.press("Tab")  # the text can be scrolled
        focused = "document.activeElement.getAttribute('aria-label')"
        assert page.evaluate(focused) == "Tokens of the prompt"


def test_masked_tokens_of_the_response_are_counted(browser: Any, step: Path) -> None:
    with visiting(browser, step, "#r=2") as page:
        page.wait_for_selector(".prompt-tokens")
        heading = page.locator("h3", has_text="Tokens (").inner_text()
        assert heading == "Tokens (6, of which 2 grey ones are not trained on)"
        masked = page.locator(".token-pair .block.given .t").all_inner_texts()
        assert masked == ["u", "r"]


def test_a_response_without_tokens_of_its_prompt_has_no_such_part(
    browser: Any, step: Path
) -> None:
    with visiting(browser, step, "#r=3") as page:
        page.wait_for_selector(".token-text")
        assert not page.locator(".prompt-tokens").count()


def test_a_long_prompt_says_how_many_tokens_are_left_out(
    browser: Any, step: Path
) -> None:
    with visiting(browser, step, "#r=4") as page:
        page.wait_for_selector(".prompt-tokens")
        text = opened(page)
        assert "tokens left out …" in text
        assert page.locator(".prompt-tokens .t").count() == 2 * PROMPT_EDGE


def test_redaction_leaves_no_token_of_a_prompt(tokenizer: Path, tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a.jsonl", logged(tokenizer, ["otter"]))
    build(
        tmp_path / "logs",
        tmp_path / "report",
        tokenizer=tokenizer,
        workers=1,
        redact=True,
    )
    page = tmp_path / "report" / "steps" / "0.html"
    header, _, _ = unpack(packed_tokens(page))
    assert "prompts" not in header
    assert set(header["text"]) == {"▪"}
