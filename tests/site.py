"""Makes the documentation's site, sample reports inside: ``python -m tests.site REPORTS OUT``.

The pages are those of the repository. Links to what is a page lead to it; links to other files
lead to the repository's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site.toml"
LINK = re.compile(r'(\]\(|(?:src|srcset)=")([^)"\s]+)([)"])')


class Sample(NamedTuple):
    """A report of the gallery."""

    picture: str  # name of its pictures, see tests/pictures.py
    title: str
    page: str  # in the folder of reports
    data: str  # its JSON file with the verdict; of a run, or of a comparison


SAMPLES = (
    Sample(
        "healthy",
        "A healthy run",
        "healthy/index.html",
        "healthy/data/report.json",
    ),
    Sample(
        "reward-hacking",
        "A run that found a flaw in its reward",
        "reward_hacking/index.html",
        "reward_hacking/data/report.json",
    ),
    Sample(
        "chinese",
        "The same run, in Chinese (中文)",
        "reward_hacking_zh/index.html",
        "reward_hacking_zh/data/report.json",
    ),
    Sample("comparison", "The one against the other", "compare.html", ""),
)

INTRODUCTION = """# Sample reports

Two real PPO runs of one small transformer, as `make report` builds them of the repository's logs.
Click a picture to open the report.
[Publish your run](publish.md) tells how to show yours.
"""

MORE = """
Also: the second run's worst
[response, token by token](reports/reward_hacking/steps/59.html#r=12), and
[both runs in one list](reports/index.html).
"""


def samples_page(reports: Path) -> str:
    """Return the gallery as Markdown: of each report a picture, its verdict and a link."""
    parts = [INTRODUCTION]
    for sample in SAMPLES:
        link = f"reports/{sample.page}"
        parts.append(
            f"""
## [{sample.title}]({link})

<a href="{link}"><picture>
  <source media="(prefers-color-scheme: dark)" srcset="pictures/sample-{sample.picture}-dark.webp">
  <img src="pictures/sample-{sample.picture}-light.webp" alt="First page: {sample.title}">
</picture></a>

{verdict_of(reports, sample)}
"""
        )
    return "".join([*parts, MORE])


def verdict_of(reports: Path, sample: Sample) -> str:
    """Return what a sample report says first, in a sentence."""
    if not (reports / (sample.data or sample.page)).is_file():
        return ""
    if sample.data:
        about = json.loads((reports / sample.data).read_bytes())
        return escaped(str(about["verdict"]["what"]))
    page = (reports / sample.page).read_text("utf-8")
    found = re.search(r'<meta name="description" content="([^"]*)"', page)
    return escaped(unescape(found[1])) if found else ""


def escaped(text: str) -> str:
    """Return a text for Markdown, in which none of its characters is markup."""
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", text)


def gather(into: Path, reports: Path) -> None:
    """Copy every page of the documentation into one folder, its links made to fit."""
    repository = tomllib.loads(SITE.read_text("utf-8"))["project"]["extra"][
        "repository"
    ]
    pages = {
        page: page.name.lower()
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    }
    pages[ROOT / "README.md"] = "index.md"
    for source, page in pages.items():

        def fit(found: re.Match[str], source: Path = source) -> str:
            before, link, after = found.groups()
            address = urlsplit(link)
            if address.scheme or not address.path:
                return found[0]
            target = Path(os.path.normpath(source.parent / address.path))
            end = f"#{address.fragment}" if address.fragment else ""
            if target in pages:
                return f"{before}{pages[target]}{end}{after}"
            if target.is_relative_to(ROOT / "docs") and target.is_file():
                return f"{before}{target.relative_to(ROOT / 'docs').as_posix()}{after}"
            path = target.relative_to(ROOT).as_posix()
            return f"{before}{repository}/blob/main/{path}{end}{after}"

        (into / page).write_text(LINK.sub(fit, source.read_text("utf-8")), "utf-8")
    (into / "samples.md").write_text(samples_page(reports), "utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", into / "pictures")


def build(reports: Path, out: Path) -> None:
    """Build the site, strictly, with the reports inside."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "docs").mkdir()
        gather(work / "docs", reports)
        shutil.copytree(reports, work / "docs" / "reports")
        shutil.copyfile(SITE, work / "zensical.toml")
        zensical = Path(sys.executable).parent / "zensical"
        subprocess.run([zensical, "build", "--strict"], cwd=work, check=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "site", out)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}/index.html")
