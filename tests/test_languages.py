"""A report in another language: nothing left in English, nothing glued, nothing mixed up."""

import ast
import email
import email.policy
import re
from email.message import EmailMessage
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from babel.messages import pofile
from jinja2 import UndefinedError
from playwright.sync_api import Page

import rlreport
from rlreport.deliver.markdown import _environment
from rlreport.errors import UsageError
from rlreport.fields import FIELDS
from rlreport.metrics.roles import known_keys
from rlreport.options import BuildOptions
from rlreport.pages.data import settings
from rlreport.pages.html import environment
from rlreport.text.language import ENGLISH, FOLDER, Language
from rlreport.text.messages import format_message, message, plural
from tests import pseudo
from tests.browser import visiting
from tests.forms import OTHERS, files_below
from tests.test_compare import read_runs_once
from tools.catalogue import extracted, untranslated

MAKERS = ("message", "plural")
LANGUAGES = sorted(path.stem for path in FOLDER.glob("*.po"))

PACKAGES = {
    "Python",
    "altair",
    "vl",
    "convert",
    "python",
    "pandas",
    "numpy",
    "jinja",
    "post",
}
NAMES = {
    *re.findall("[A-Za-z]{2,}", " ".join(field.name for field in FIELDS)),
    "objective",
    "kl",
    "rlboard",
    "run",
    "other",
    "report",
    "compared",
    "all",
    *PACKAGES,
    "any",
    "guardrail",
    "new",
    "critical",
    "worse",
    *("_".join(settings(BuildOptions())).split("_")),
    *re.findall("[A-Za-z]{2,}", " ".join(key.framework for key in known_keys())),
    "true",
    "false",
}
"""Words that are names: of fields, of options and their values, of packages and frameworks."""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Every form of a report, of a comparison and an index, in the language of the tests."""
    folder = tmp_path_factory.mktemp("pseudo")
    with pytest.MonkeyPatch.context() as patch:
        pseudo.speak(folder, patch)
        read_runs_once(patch)
        runs = [pseudo.log(folder / "run"), pseudo.log(folder / "other", seed=1)]
        options: dict[str, Any] = {"lang": pseudo.CODE, "title": "ω", "workers": 1}
        for suffix in OTHERS.values():
            report = folder / f"report{suffix}"
            compared = folder / f"compared{suffix}"
            rlreport.build(runs[0], report, mute={"reward_stalled": "ψ"}, **options)
            rlreport.compare(runs[1], runs[0], compared, fail_on=["any"], **options)
        (folder / "broken.zip").write_bytes(b"PK")
        rlreport.index([folder], folder / "index.html", lang=pseudo.CODE)
    return folder


def parts_of(file: Path) -> list[str]:
    """The texts of a form that people read."""
    if file.is_dir():
        texts = []
        for page in sorted(file.rglob("*.html")):
            texts += pseudo.texts_of(page.read_text())
        return texts
    text = file.read_text("utf-8")
    if file.suffix == ".html":
        return pseudo.texts_of(text)
    if file.suffix != ".eml":
        return re.sub(
            r"```.*?```|`[^`]*`|\]\([^)]*\)|<[^>]*>", "\n", text, flags=re.S
        ).split("\n")
    mail = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    plain, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None and html is not None
    return [
        str(mail["Subject"]),
        *(
            line
            for line in plain.get_content().split("\n")
            if not re.search("before|after|see", line)
        ),
        *pseudo.texts_of(html.get_content()),
    ]


FORMS = [f"report{suffix}" for suffix in OTHERS.values()]
FORMS += [f"compared{suffix}" for suffix in OTHERS.values()]
FORMS += ["index.html"]


@pytest.mark.parametrize("form", FORMS)
def test_no_text_is_left_in_english_or_glued_of_several(spoken, form):
    known = NAMES
    parts = parts_of(spoken / form)
    if form == "index.html":
        # Reasons and verdicts are texts of the reports that are listed, which paths lead to.
        known = NAMES | {"expected", "an", "object", "found", "list"}
        known |= {"index", "reports", "html"}
    assert pseudo.untranslated(parts, known) == []
    if not Path(form).suffix or form.endswith(".html"):
        assert pseudo.glued(parts) == []


def test_no_message_is_joined_to_another_text():
    """Where text is added to a message, no language can put it elsewhere."""
    makers = {
        *MAKERS,
        "format_message",
        "listed",
        "clauses",
        "phrases",
        "sentences",
        "span",
    }

    def made(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers

    found = []
    for path in sorted(Path(rlreport.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts: list[ast.AST] = []
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value
                    for part in node.values
                    if isinstance(part, ast.FormattedValue)
                ]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
                parts = [node.left, node.right]
            if any(map(made, parts)):
                found.append(f"{path.name}:{node.lineno}")  # type: ignore[attr-defined]
    for path in sorted((pseudo.ROOT / "static" / "js").rglob("*.js")):
        text = path.read_text("utf-8")
        found += [
            f"{path.name}: {one[0]}"
            for one in re.finditer(r"message\([^()]*\) \+", text)
        ]
    assert found == []


def literals(text: str) -> list[str]:
    """The places of a message, with how each is written."""
    if "%(" in text:
        return sorted(re.findall(r"%\(\w+\)s", text))
    return sorted(
        {f"{name}:{form}" for _, name, form, _ in Formatter().parse(text) if name}
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_in_the_catalogue_and_its_translation_has_the_same_places(
    language,
):
    there = {m.id for m in extracted(pseudo.ROOT) if m.id}
    with (FOLDER / f"{language}.po").open("rb") as file:
        catalogue = [
            entry for entry in pofile.read_po(file, locale=language) if entry.id
        ]
    assert {entry.id for entry in catalogue} == there, "make written"
    for entry in catalogue:
        said = (
            [entry.string]
            if isinstance(entry.string, str)
            else list(entry.string or ())
        )
        asked = [entry.id] if isinstance(entry.id, str) else list(entry.id)
        assert not entry.fuzzy, entry.id
        for text in filter(
            None, said
        ):  # a missing one is English: `make release-check` asks
            assert literals(text) == literals(asked[-1]), entry.id
            assert set(re.findall(r"<[^>]*>", text)) == set(
                re.findall(r"<[^>]*>", asked[0])
            )
        # No translation can end an attribute.
        assert '"' in str(entry.id) or '"' not in "".join(said), entry.id


def test_a_release_needs_a_translation_of_every_message(tmp_path):
    po = tmp_path / "zh.po"
    po.write_text(
        'msgid "run"\nmsgstr "运行"\n\nmsgid "step"\nmsgid_plural "s"\nmsgstr[0] ""\n'
    )
    assert untranslated(po) == ["step"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_stands_in_a_message_stays_text(language):
    hostile = "{0} {name} %(x)s </script><b>&amp;"
    said = Language(language).of(
        message("{name}: needs {needs}", name=hostile, needs="{needs}")
    )
    assert hostile in said and "{needs}" in said


def test_messages_are_english_until_they_are_told_and_need_all_their_values():
    counts = [plural("{count} step", "{count} steps", n) for n in (0, 1, 1234)]
    assert counts == ["0 steps", "1 step", "1,234 steps"]
    text = format_message("{share:percent} of responses", {"share": 0.5})
    assert text == "50% of responses" and ENGLISH.of([text]) == ["50% of responses"]
    assert format_message("{none:figure} nats", {"none": None}) == "– nats"
    for make in (
        lambda: message("{gone:figure} nats", here=1),
        lambda: plural("{count} step", "{count} steps of {gone}", 2),
        lambda: format_message("{here} {gone}", {"here": 1}),
    ):
        with pytest.raises(KeyError, match=r"no value for \{gone.*(nats|steps|here)"):
            make()


def test_every_message_is_made_with_exactly_its_values():
    """Also where no test makes it."""
    wrong = []
    for path in (pseudo.ROOT / "rlreport").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in MAKERS:
                continue
            texts = [one.value for one in call.args if isinstance(one, ast.Constant)]
            values = {word.arg for word in call.keywords}
            if ast.unparse(call.func) == "plural":
                values.add("count")
            places = set()
            for text in texts:
                places |= {re.sub(":.*", "", place) for place in literals(str(text))}
            if (
                texts
                and None not in values
                and places | {"count"} != values | {"count"}
            ):
                wrong.append(f"{path.name}:{call.lineno}")
    assert wrong == []


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
@pytest.mark.parametrize(
    "template",
    [
        "{{ gone }}",
        "{{ view.gone }}",
        "{% if view.gone %}{% endif %}",
        "{% trans %}{{ gone }}{% endtrans %}",
        "{% trans name=view.gone %}{{ name }}{% endtrans %}",
        "{{ _('%(gone)s') }}",
        "{{ _('%(name)s', name=view.gone) }}",
        "{% macro part(gone) %}{{ gone }}{% endmacro %}{{ part() }}",
        "{% from 'macros/table.html' import gone %}{{ gone() }}",
    ],
)
def test_a_name_that_a_template_does_not_get_is_an_error(template, language):
    for templates in (
        environment(Language(language)),
        _environment(Language(language)),
    ):
        with pytest.raises((UndefinedError, KeyError), match="gone"):
            templates.from_string(template).render(view={})


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """One run in English, in Chinese, and in English again, one after another."""
    folder = tmp_path_factory.mktemp("three")
    logs = pseudo.log(folder / "run", steps=9, each=8)
    made = []
    for name, lang, workers in (
        ("first", "en", 1),
        ("chinese", "zh", 2),
        ("again", "en", 1),
    ):
        out = folder / name
        rlreport.build(logs, out, lang=lang, title="ω", workers=workers)
        made.append(out)
    return made


def test_two_languages_in_one_process_do_not_mix_and_data_are_english(three):
    first, chinese, again = map(files_below, three)
    assert first == again
    pages = {name for name in chinese if name.endswith(".html")}
    assert {name for name in first if name.endswith(".html")} == pages
    for name in pages:
        assert b'<html lang="zh-CN">' in chinese[name], name
        assert b'<html lang="en">' in first[name], name
        assert "回复".encode() in chinese[name], name  # whoever baked it
    # Data are English, but for the names of scripts, which are by what these say.
    for name, data in first.items():
        if name.endswith((".json", ".csv", ".gz")) and name != "data/manifest.json":
            assert data == chinese[name], name


def test_a_language_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="one of en, zh"):
        rlreport.build(tmp_path, tmp_path / "out", lang="xx")


SEEN = """() => {
  const heard = ["title", "aria-label", "placeholder", "label", "aria-valuetext", "data-words"];
  const found = [document.title];
  const skipped = "script, style, code, pre, kbd, q, noscript, .vega-embed, .tip .raw";
  for (const node of document.querySelectorAll("*")) {
    if (node.closest("script, style, noscript, .vega-embed")) continue;
    for (const name of heard) if (node.getAttribute(name)) found.push(node.getAttribute(name));
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let open = 0;
  while (walk.nextNode()) {
    const text = walk.currentNode.data.split(/\\s+/).join(" ").trim();
    const unseen = walk.currentNode.parentElement.closest(skipped);
    if (!text || unseen) continue;
    if (open) found[found.length - 1] += " " + text;
    else found.push(text);
    open += (text.match(/⟦/g) ?? []).length - (text.match(/⟧/g) ?? []).length;
  }
  return found;
}"""

KEYS = {
    "Finish",
    "Key",
    "Escape",
    "Shift",
    "PNG",
    "SVG",
    "CSV",
    "Vega",
    "Lite",
    "jsonl",
}


def opened(page: Page) -> None:
    """Open all that is folded, and every menu."""
    page.evaluate(
        "document.querySelectorAll('details').forEach((one) => (one.open = true))"
    )
    page.wait_for_timeout(300)


def with_keys(page: Page) -> None:
    opened(page)
    page.keyboard.press("?")


def with_token(page: Page) -> None:
    """Open the response's tokens: the box of figures of one, and a line for each metric."""
    page.wait_for_selector(".token-text .t")
    page.locator(".token-tools input[type=checkbox]").last.check()
    page.keyboard.press("w")
    with_keys(page)


def filtered(page: Page) -> None:
    page.fill("input[type=search]", "ψψψ")
    opened(page)


@pytest.mark.parametrize(
    ("place", "act"),
    [
        ("index.html", with_keys),
        ("steps/2.html#r=1", with_token),
        ("steps/2.html#r=999", opened),
        ("responses.html", filtered),
        ("prompts.html", opened),
        ("texts.html", opened),
        ("data.html", opened),
    ],
)
def test_scripts_say_nothing_in_english(browser, spoken, place, act):
    file, mark, address = place.partition("#")
    with visiting(browser, spoken / "report" / file, mark + address) as page:
        act(page)
        texts = page.evaluate(SEEN)
    left = pseudo.untranslated(texts, NAMES | KEYS)
    glued = pseudo.glued(texts)
    assert (left, glued) == ([], [])
