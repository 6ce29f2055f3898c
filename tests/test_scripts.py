"""The browser's modules become one classic script."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rlreport.bake.templates import join_scripts

STATIC = Path(__file__).resolve().parents[1] / "static"


def write(folder: Path, **modules: str) -> None:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source, "utf-8")


def test_modules_come_after_those_they_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { twice } from "./sums.js";\nglobalThis.answer = twice(21);\n',
        sums="export function twice(x) {\n  return 2 * x;\n}\n",
    )
    joined = join_scripts(tmp_path)
    assert joined.index('modules["sums.js"]') < joined.index('modules["main.js"]')
    assert "import" not in joined
    assert "export" not in joined


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")
def test_the_joined_script_runs_and_leaks_no_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { twice as double } from "./sums.js";\nglobalThis.answer = double(21);\n',
        sums="const two = 2;\nexport function twice(x) {\n  return two * x;\n}\n",
    )
    script = join_scripts(tmp_path) + "console.log(answer, typeof modules, typeof twice);"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["42", "undefined", "undefined"]


def test_a_circle_is_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { a } from "./other.js";\nexport const b = 1;\n',
        other='import { b } from "./main.js";\nexport const a = 1;\n',
    )
    with pytest.raises(ValueError, match="import each other"):
        join_scripts(tmp_path)


@pytest.mark.parametrize(
    "source", ['import x from "./x.js";\n', "export default 1;\n", "export { y };\n"]
)
def test_other_forms_of_import_and_export_are_refused(tmp_path: Path, source: str) -> None:
    write(tmp_path, main=source)
    with pytest.raises(ValueError, match=r"main\.js"):
        join_scripts(tmp_path)


def test_nothing_of_ours_turns_text_into_markup_or_code() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\.srcdoc"
    )
    files = [path for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"}]
    assert len(files) > 20
    guilty = [path.name for path in files if forbidden.search(path.read_text("utf-8"))]
    assert guilty == []


def test_the_script_cannot_end_its_node() -> None:
    assert "</script" not in join_scripts(STATIC / "js", "page/main.js").lower()


def test_modules_of_different_folders_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "list").mkdir()
    write(tmp_path / "page", main='import { a } from "../list/rows.js";\nglobalThis.b = a;\n')
    write(tmp_path / "list", rows='import { c } from "./table.js";\nexport const a = c;\n')
    write(tmp_path / "list", table="export const c = 3;\n")
    joined = join_scripts(tmp_path, "page/main.js")
    assert re.findall(r'^modules\["([^"]*)"\]', joined, re.M) == [
        "list/table.js",
        "list/rows.js",
        "page/main.js",
    ]
