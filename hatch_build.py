"""A step of the build of a wheel: compile the documentation, which the installed web server shows under “Help”."""

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from sphinx.cmd.build import build_main


class CompileDocumentation(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the documentation, and add it to the wheel. An editable installation shows that of its clone."""
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

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files, which are in the wheel now."""
        if version != "editable":
            self._scratch.cleanup()
