"""Makes the documentation's site, sample reports inside: ``python -m tests.site REPORTS OUT``.

The pages are those of the repository. Links to what is a page lead to it; links to other files
lead to the repository's.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site.toml"
LINK = re.compile(r'(\]\(|(?:src|srcset)=")([^)"\s]+)([)"])')

SAMPLES = """# Sample reports

Two real PPO runs of one small transformer, as `make report` builds them of the repository's logs.

- [A healthy run](reports/healthy/index.html)
- [A run that found a flaw in its reward](reports/reward_hacking/index.html), and its worst
  [response, token by token](reports/reward_hacking/steps/59.html#r=12);
  [the same in Chinese, 中文](reports/reward_hacking_zh/index.html)
- [Both in one list](reports/index.html), and [the one against the other](reports/compare.html)
"""


def gather(into: Path) -> None:
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
    (into / "samples.md").write_text(SAMPLES, "utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", into / "pictures")


def build(reports: Path, out: Path) -> None:
    """Build the site, strictly, with the reports inside."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "docs").mkdir()
        gather(work / "docs")
        shutil.copytree(reports, work / "docs" / "reports")
        shutil.copyfile(SITE, work / "zensical.toml")
        zensical = Path(sys.executable).parent / "zensical"
        subprocess.run([zensical, "build", "--strict"], cwd=work, check=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "site", out)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}/index.html")
