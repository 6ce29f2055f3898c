"""Build hook: compiles ``rlreport/native`` where a C++ compiler is, else makes a pure wheel."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = "rlreport/native"
FLAGS = ["-O3", "-g0", "-std=c++17", "-ffp-contract=off", "-fno-math-errno"]
"""No option that would let results differ from NumPy's, or need more than any such machine has."""


class CompiledScan(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled module to a wheel; of an editable install it lies beside its source."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say in one line if that cannot be done."""
        if self.target_name != "wheel":
            return
        name = f"{NATIVE}/_scan{sysconfig.get_config_var('EXT_SUFFIX')}"
        target = Path(self.root) / name
        try:
            if not up_to_date(target, Path(self.root)):
                compile_into(target, Path(self.root))
        # Whatever is wrong with a compiler, the package works without.
        except (Exception, SystemExit) as error:
            # What an earlier build left may not fit the code of today.
            target.unlink(missing_ok=True)
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"rlreport: built without its compiled module ({reason:.200})", file=sys.stderr)
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(f"/{name}")


def up_to_date(target: Path, root: Path) -> bool:
    """Say whether the module was built here after the last change of what it is made of."""
    if not target.exists():
        return False
    made_of = [root / "hatch_build.py"]
    for suffix in ("pyx", "pxi", "hpp"):
        made_of += (root / NATIVE).glob(f"*.{suffix}")
    return all(source.stat().st_mtime < target.stat().st_mtime for source in made_of)


def compile_into(target: Path, root: Path) -> None:
    """Compile the module."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    here = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            extension = Extension(
                "rlreport.native._scan",
                [f"{NATIVE}/_scan.pyx"],
                include_dirs=[NATIVE],
                language="c++",
                extra_compile_args=FLAGS,
            )
            modules = cythonize([extension], build_dir=folder, force=True, quiet=True)
            command = build_ext(Distribution({"packages": [], "ext_modules": modules}))
            command.build_lib = command.build_temp = folder
            command.ensure_finalized()
            command.run()
            built = Path(command.get_ext_fullpath("rlreport.native._scan"))
            # Whole at once, as another process may be about to load it.
            partial = target.with_suffix(".new")
            shutil.copyfile(built, partial)
            partial.replace(target)
    finally:
        os.chdir(here)
