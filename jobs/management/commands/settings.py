"""`manage.py settings`: show the effective settings of the nodes, and store others."""

import argparse
import getpass
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rest_framework.exceptions import ParseError

from jobs.queries.settings_page import read_settings_page
from jobs.settings.table import TABLE
from nodes.api.parsing import read_json
from nodes.management.database import check_database
from nodes.settings import versions
from nodes.settings.declaration import InvalidSettings


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show the settings of the cluster's nodes, or store a settings JSON for all nodes."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file", nargs="?", help="file with the whole settings JSON to store; - means standard input"
        )
        parser.add_argument("--dry-run", action="store_true", help="print the changes and store nothing")

    def handle(self, *_args: Any, file: str | None, dry_run: bool, **_options: Any) -> None:
        check_database()
        if file is None:
            self._show()
        else:
            self._store(file, dry_run=dry_run)

    def _show(self) -> None:
        page = read_settings_page()
        self.stdout.write(f"version {page.version}" if page.version else "nothing is stored")
        for line in page.lines:
            apart = "".join(
                f"; {node.name}: {json.dumps(node.values[line.setting.path])} ({node.sources[line.setting.path]})"
                for node in line.apart
            )
            self.stdout.write(f"{line.setting.path} = {json.dumps(line.value)} ({line.source}){apart}")

    def _store(self, file: str, *, dry_run: bool) -> None:
        try:
            document = read_json(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
            if dry_run:
                changed = versions.preview(TABLE, document)
            else:
                changed = versions.store(TABLE, document, made_by=getpass.getuser())
        except OSError as error:
            raise CommandError(f"Cannot read {file}: {error.strerror}.", returncode=2) from error
        except ParseError as error:
            raise CommandError(f"{file}: {error.detail}", returncode=2) from error
        except InvalidSettings as refused:
            raise CommandError(f"The settings were not stored. {refused}", returncode=2) from refused
        said = [f"{change} ({change.setting.applies})" for change in changed] or ["no changes"]
        self.stdout.write("\n".join(said))
