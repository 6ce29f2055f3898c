"""The panel of a comparison: tokens, figures and ends of both responses, from logs and reports."""

import json
import re
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest

import rlreport
from rlreport.check import Thresholds
from rlreport.comparison import pair_tokens
from rlreport.comparison.outcome import Flip, Outcome, outcome_of
from rlreport.comparison.pair_tokens import TokenPair
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.saved_tokens import rollouts_of
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.pages.compare.flips import MAX_CHARACTERS, flips_table
from rlreport.pages.compare.sides import packed_pair
from rlreport.pages.token_data import pack_tokens
from rlreport.read.rollouts import Rollout
from rlreport.read.token_columns import TokenColumns
from rlreport.system.workers import Progress
from rlreport.text.language import ENGLISH
from tests.browser import in_url, serious, until, visiting
from tests.forms import everything, files_below, unpacked
from tests.reading import write

# Byte-level tokens of whole characters and of parts of them, CJK, and strings against scripts
TOKENS = ("Ġthe", "Ċ", "ĠçĮ«", "ðŁİ", "ī", "</script><b>", "\u2028", '"];alert(1)//')
TEXT = 'the\n 猫🎉</script><b>\u2028"];alert(1)//'
FORMS = ("", ".zip", ".html")
REPORTS = ("logs", *FORMS)


def write_run(folder: Path, *, seed: int, drop: float, tokens: bool = True) -> Path:
    """A run of 32 prompts with tokens, of which some earn less with ``drop``."""
    random = np.random.default_rng(seed)
    rows = []
    for step, prompt, k in product(range(5), range(32), range(2)):
        chance = 0.9 - drop if prompt < 16 else 0.9
        answer = f"secret{seed} {'so ' * 200}{TEXT} Answer: {seed}{prompt}"
        row = {
            "step": step,
            "prompt": f"猫 {prompt}: what?",
            "response": answer,
            "reward": float(random.random() < chance),
            "length_penalty": -0.25 * k,
        }
        if tokens:
            count = len(TOKENS) + prompt % 3 + 1
            row["response_tokens"] = [*TOKENS, *["Ġmore"] * (prompt % 3), f"Ġs{seed}"]
            row["logprobs"] = (-random.random(count)).tolist()
            row["ref_logprobs"] = (-random.random(count)).tolist()
        rows.append(row)
    return write(folder / "log.jsonl", rows).parent


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("panel")
    return {
        "base": write_run(root / "base", seed=1, drop=0.0),
        "new": write_run(root / "new", seed=2, drop=0.7),
    }


@pytest.fixture(scope="module")
def sides(logs, tmp_path_factory) -> dict[str, tuple[ComparedRun, ComparedRun]]:
    """BASE and NEW, read from logs and from a report in each form."""
    root = tmp_path_factory.mktemp("reports")
    result = {"logs": (read(logs["base"]), read(logs["new"]))}
    for form in FORMS:
        runs = []
        for side, folder in logs.items():
            out = root / f"{side}{form}"
            rlreport.build(folder, out, workers=1)
            runs.append(read(out))
        result[form] = (runs[0], runs[1])
    return result


@pytest.fixture(scope="module")
def made(logs, tmp_path_factory) -> Path:
    """The folder of the comparison, beside which it is in one file."""
    out = tmp_path_factory.mktemp("made") / "out"
    for suffix in ("", ".html"):
        rlreport.compare(logs["base"], logs["new"], f"{out}{suffix}")
    return out


def read(path: Path) -> ComparedRun:
    return compared_run(path, CompareOptions(), Thresholds(), Progress())


def compared(sides: tuple[ComparedRun, ComparedRun], **options) -> Outcome:
    base, new = sides
    return outcome_of([base], [new], CompareOptions(**options))


def packed(pair: TokenPair) -> str:
    """What the page has of a pair."""
    return packed_pair(pair, ENGLISH)


@pytest.mark.parametrize("form", FORMS)
def test_a_report_in_any_form_gives_the_tokens_of_its_logs(sides, form):
    of_logs = compared(sides["logs"])
    of_report = compared(sides[form])
    assert len(of_logs.flips) > 8
    assert of_logs.token_pairs[0].new is not None
    for flip, expected, saved in zip(
        of_logs.flips, of_logs.token_pairs, of_report.token_pairs, strict=True
    ):
        assert packed(saved) == packed(expected)
        assert saved.base is not None and saved.new is not None, flip
        assert saved.new.raw_tokens[-1] == "Ġs2"
        assert saved.base.raw_tokens[-1] == "Ġs1"
    one = of_report.token_pairs[0].base
    assert one is not None
    assert set(one.figures) >= {"logp", "ref_logp", "log_ratio", "kl"}
    assert one.tokens[:5] == [" the", "\n", " 猫", "", "🎉"]


def test_a_run_without_tokens_leaves_those_of_the_other(sides, tmp_path):
    plain = read(write_run(tmp_path / "plain", seed=2, drop=0.7, tokens=False))
    pairs = compared((sides["logs"][0], plain)).token_pairs
    assert pairs[0].base is not None
    assert all(pair.new is None for pair in pairs)


def test_redaction_leaves_no_token(sides, logs, tmp_path):
    assert compared(sides["logs"], redact=True).token_pairs == []
    for suffix in ("", ".html"):
        out = tmp_path / f"out{suffix}"
        rlreport.compare(logs["base"], logs["new"], out, redact=True)
        content = everything(out)
        assert b"secret" not in content and "猫".encode() not in content
        assert b"\\u0120s1" not in content and "Ġs1".encode() not in content
    assert not (tmp_path / "out" / "data" / "tokens").exists()


def test_a_redacted_report_gives_no_tokens(logs, tmp_path):
    rlreport.build(logs["base"], tmp_path / "base", redact=True, workers=1)
    run = read(tmp_path / "base")
    assert run.rollouts([(4, 0), (4, 1)], 100) == {}


def test_tokens_of_the_first_prompts_are_kept_within_the_budget(sides, monkeypatch):
    sizes = [pair.size for pair in compared(sides["logs"]).token_pairs]
    monkeypatch.setattr(pair_tokens, "MOST_IN_ALL", sum(sizes[:3]))
    pairs = compared(sides["logs"]).token_pairs
    kept = [pair.size for pair in pairs]
    assert kept[:3] == sizes[:3]
    assert not any(kept[3:])


@pytest.mark.parametrize("form", REPORTS)
def test_a_response_of_too_many_tokens_has_none_and_the_others_keep_theirs(
    sides, monkeypatch, form
):
    longest = len(TOKENS) + 2
    monkeypatch.setattr(pair_tokens, "MOST_TOKENS", longest)
    pairs = compared(sides[form]).token_pairs
    rollouts = [rollout for rollout in chain(*pairs) if rollout]
    sizes = [len(rollout.raw_tokens) for rollout in rollouts]
    assert 0 < len(sizes) < 2 * len(pairs)
    assert max(sizes) == longest


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x04\x00\x00\x00null",
        b"\xff\xff\xff\xff{}",
        b"\x02\x00\x00\x00{}",
    ],
)
def test_bytes_that_are_no_tokens_are_refused(broken):
    with pytest.raises((ValueError, TypeError, LookupError)):
        rollouts_of(broken, 1, {0}, 10)


def test_tokens_that_were_tampered_with_are_refused_or_bounded():
    tokens = ["a", "b"]
    rollout = Rollout(1, 0, "", 0, "", "", raw_tokens=tokens, tokens=tokens)
    content = unpacked(pack_tokens(TokenColumns.of([rollout]), 6).encode())
    assert rollouts_of(content, 1, {0}, 2)[0].tokens == ["a", "b"]
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size])
    for changes in (
        {"lengths": [-2]},
        {"lengths": [2**62]},
        {"lengths": [[2]]},
        {"n": ["x"]},
        {"text": ["a"], "raw": [None]},
        {"text": [1, 2]},
        {"columns": ["logp"]},
        {"columns": ["__class__"]},
    ):
        head = json.dumps({**header, **changes}).encode()
        tampered = len(head).to_bytes(4, "little") + head + content[4 + size :]
        with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
            rollouts_of(tampered, 1, {0}, 2)


def test_a_broken_file_of_tokens_costs_the_tokens_alone(sides, logs, tmp_path):
    out = tmp_path / "report"
    rlreport.build(logs["base"], out, workers=1)
    for file in (out / "data" / "tokens").iterdir():
        file.write_text('x["1"] = "no base64";')
    outcome = compared((read(out), sides["logs"][1]))
    assert outcome.flips[0].base_text is not None
    assert all(pair.base is None for pair in outcome.token_pairs)
    assert outcome.token_pairs[0].new is not None


def test_all_figures_that_a_page_names_are_defined_and_no_others(made):
    page = (made / "compare.html").read_text("utf-8")
    data = json.loads(found('class="rows-data">(.*?)</script>', page))
    named = set(re.findall(r'data-term="([^"]+)"', page))
    named |= {column["term"] for column in data["compared"]["columns"]} - {""}
    script = (made / "data" / "terms.js").read_text()
    definitions = unpacked(found('"(H4s[^"]+)"', script).encode()).decode()
    defined = set(re.findall('id="term=([^"]+)"', definitions))
    assert {"reward_mean", "kl_k1_mean", "responses.reward"} <= named
    assert named <= defined
    assert all(term.startswith("token.") for term in defined - named)


def test_figures_that_both_runs_have_come_in_columns(made):
    page = (made / "compare.html").read_text("utf-8")
    data = json.loads(found('class="rows-data">(.*?)</script>', page))
    both = data["compared"]
    keys = [column["key"] for column in both["columns"]]
    assert {"mean_reward", "reward", "kl_k1", "response_tokens"} <= set(keys)
    assert [side["name"] for side in both["sides"]] == ["base", "new"]
    assert data["titles"]["row"] == "Prompt {n}: new against base"
    for side, values in zip(both["sides"], ("base", "new"), strict=True):
        assert side["values"]["mean_reward"] == data["values"][values]
        # The longest has three more tokens than TOKENS.
        assert set(side["values"]["response_tokens"]) == {9, 10, 11}
        assert len(side["answers"]) == len(data["n"])
    assert both["tokens"] == data["n"]


def test_a_long_response_keeps_its_end(sides):
    outcome = compared(sides["logs"])
    text = f"{'x' * 3 * MAX_CHARACTERS} Answer: 42"
    response = (1, 0)
    flip = Flip(1, 0.0, 1.0, 1.0, response, response, new_text=text)
    cells = flips_table([flip], outcome).rows[0].cells
    (cell,) = [cell for cell in cells if "42" in cell.end]
    shown = f"{cell.text}{cell.end}"
    assert len(shown) < MAX_CHARACTERS + 200
    assert shown.endswith(" Answer: 42")
    assert "characters left out" in shown


def test_tokens_go_first_where_the_size_is_small(logs, made, tmp_path):
    whole = made.with_suffix(".html")
    count = whole.read_text("utf-8").count('class="tokens-data"')
    assert count > 8
    small = tmp_path / "small.html"
    limit = whole.stat().st_size - 4_000
    rlreport.compare(logs["base"], logs["new"], small, max_size=limit)
    page = small.read_text("utf-8")
    assert small.stat().st_size <= limit
    assert 0 < page.count('class="tokens-data"') < count
    assert f"of {count} prompts won or lost" in page
    assert page.count('<tr data-n="') == whole.read_text("utf-8").count('<tr data-n="')


def test_the_tokens_of_a_folder_are_those_of_one_file(made):
    page = made.with_suffix(".html").read_text("utf-8")
    nodes = dict(
        re.findall(r'class="tokens-data" data-step="(\d+)">([^<]+)</script>', page)
    )
    files = {
        Path(name).stem: found('= "([^"]+)"', content.decode())
        for name, content in files_below(made).items()
        if name.startswith("data/tokens/")
    }
    assert nodes == files


def test_a_pair_has_as_many_tokens_as_both_of_its_responses():
    one = Rollout(1, 0, "", 0, "", "", raw_tokens=["a", "b"])
    assert TokenPair(None, None).size == 0
    assert TokenPair(one, one).size == 4


def found(pattern: str, text: str) -> str:
    """The group of a pattern's first match, which must be there."""
    match = re.search(pattern, text, re.DOTALL)
    assert match is not None
    return match[1]


def opened(made: Path, form: str) -> Path:
    return made.with_suffix(form) if form else made / "compare.html"


@pytest.mark.parametrize("form", ["", ".html"])
def test_a_prompt_opens_with_both_ends_figures_and_tokens(browser, made, form):
    with visiting(browser, opened(made, form), "#r=1") as page:
        page.wait_for_selector(".token-view section + section .t")
        assert page.text_content(".response h2") == "Prompt 1: new against base"
        ends = page.locator(".ends-of-both .prose").all_inner_texts()
        assert all(end.startswith("… so") and TEXT[:6] in end for end in ends)
        assert all(len(end) < 330 for end in ends)
        answers = page.locator(".ends-of-both .answer strong").all_text_contents()
        assert answers[0].startswith("1") and answers[1].startswith("2")
        whole = page.locator(".texts details").evaluate_all(
            "nodes => nodes.map((node) => node.dataset.text)"
        )
        assert whole[:3] == ["prompt", "ref_response", "response"]
        # Ends are above the whole texts.
        parts = page.locator(".response > *").evaluate_all(
            "nodes => nodes.map((node) => node.className)"
        )
        assert parts.index("ends-of-both") < parts.index("texts")
        heads = page.locator(".figures-of-both thead th").all_inner_texts()
        assert heads[:3] == ["Figure", "base", "new"]
        headings = page.locator(".token-view h3").all_inner_texts()
        assert [text.partition(" (")[0] for text in headings] == [
            "base: tokens",
            "new: tokens",
        ]
        texts = page.locator(".token-view .token-text").all_inner_texts()
        assert "s1" in texts[0] and "s2" in texts[1]
        assert serious(page) == []


@pytest.mark.parametrize("form", ["", ".html"])
def test_figures_of_a_comparison_open_their_definitions(browser, made, form):
    with visiting(browser, opened(made, form), "#r=1") as page:
        for name in (
            '.figures-of-both [data-figure="reward"] button.term',
            '[data-table="guardrails"] button.term',
            '.responses th[data-key="delta"] button.what',
            ".token-view .legend button.term",
        ):
            page.locator(name).first.click()
            card = page.locator(".term-card:popover-open")
            card.wait_for()
            assert len(card.inner_text()) > 40
            assert not card.locator("a").count()  # there is no page of definitions
            page.keyboard.press("Escape")
            until(page, "() => !document.querySelector('.term-card:popover-open')")


def test_the_address_names_a_token_of_either_response(browser, made):
    page_file = made / "compare.html"
    with visiting(browser, page_file, "#r=2&token=2") as page:
        page.wait_for_selector(".token-view section:last-of-type .t.at")
        assert not page.locator(".token-view section:first-of-type .t.at").count()
        page.locator(".token-view section:first-of-type .t").nth(5).click()
        in_url(page, "token=5")
        in_url(page, "side=base")
        page.locator(".token-view section:last-of-type .t").nth(1).click()
        until(page, "() => !location.hash.includes('side=')")
    with visiting(browser, page_file, "#r=2&token=5&side=base") as page:
        page.wait_for_selector(".token-view section:first-of-type .t.at")
        tip = page.locator(".tip:not([hidden])")
        tip.wait_for()
        assert "</script><b>" in tip.inner_text()
        assert not page.locator(".token-view section:last-of-type .t.at").count()


def test_keys_go_through_the_prompts_and_through_the_tokens_of_both(browser, made):
    with visiting(browser, made / "compare.html", "#r=1") as page:
        page.wait_for_selector(".token-view section + section .t")
        page.keyboard.press("w")
        in_url(page, "token=")
        page.keyboard.press("j")
        in_url(page, "r=2")
        assert "token=" not in page.evaluate("location.hash")
        page.wait_for_selector("text=Prompt 2: new against base")
        page.keyboard.press("k")
        in_url(page, "r=1")
        page.keyboard.press("?")
        assert "next prompt" in page.inner_text("dialog.keys")


def test_a_missing_file_of_tokens_is_said_and_costs_nothing_else(
    browser, made, tmp_path
):
    copy = tmp_path / "copy"
    for name, content in files_below(made).items():
        if not name.startswith("data/tokens/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(content)
    tab = browser.new_page()
    tab.goto(f"{(copy / 'compare.html').as_uri()}#r=1")
    tab.wait_for_selector("text=The token values of this prompt are missing or damaged")
    assert tab.locator(".ends-of-both .prose").count() == 2
    tab.close()
