"""
A step of the build of a wheel: it compiles the documentation, which “Help” shows, and the catalogues of the languages.
"""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from sphinx.cmd.build import build_main


class CompileForTheWheel(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """
        Add the compiled documentation and catalogues to the wheel. An editable installation uses those of its clone.
        """
        if version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="crawlctl-manual-")
        manual, doctrees = (Path(self._scratch.name) / name for name in ("html", "doctrees"))
        root = Path(self.root)
        # Warnings are not errors here: a later version of Sphinx may have new ones. `make docs` checks them.
        arguments = ["-q", "-b", "html", "-c", root / "docs" / "site", "-d", doctrees, root, manual]
        if build_main([str(argument) for argument in arguments]) != 0:
            raise RuntimeError("Sphinx could not compile the documentation.")
        build_data["force_include"][str(manual)] = "crawlctl/manual"
        runpy.run_path(str(root / "tools" / "compile_catalogues.py"))["compile_catalogues"]()
        for compiled in (root / "locale").glob("*/LC_MESSAGES/django.mo"):
            build_data["force_include"][str(compiled)] = f"crawlctl/{compiled.relative_to(root)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files, which are in the wheel now."""
        if version != "editable":
            self._scratch.cleanup()
