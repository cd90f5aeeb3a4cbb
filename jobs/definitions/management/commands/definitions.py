"""`manage.py definitions VERB`: jobs, connections and policies as files."""

import argparse
import getpass
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from jobs.definitions import importing, texts
from jobs.definitions.manifoldcf.convert import convert
from jobs.definitions.reading import Definition, read_all, read_rows
from jobs.definitions.subjects import JOB, SUBJECTS
from jobs.models import RepositoryConnection
from nodes.errors import NotAllowed
from nodes.management.database import check_database
from nodes.permissions import may_do_everything

_DESCRIPTION: Final = "Write jobs, connections and policies to files, and store them from files (docs/definitions.md)."
_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_STEM: Final = 80
# Largest number of characters of a value in the plan of an import.
_LONGEST_VALUE: Final = 200


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = _DESCRIPTION

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        doing = parser.add_subparsers(dest="verb", required=True)
        export = doing.add_parser("export", help="write definitions")
        export.add_argument("--all", action="store_true", help="all jobs, connections and policies")
        for name in SUBJECTS:
            also = " with the objects that it names" if name == JOB.name else ""
            export.add_argument(
                f"--{name}", action="append", default=[], metavar="NAME", help=f"the {name} NAME{also}; repeatable"
            )
        export.add_argument("--alone", action="store_true", help="jobs without the objects that they name")
        export.add_argument("--format", choices=texts.FORMATS, help="default: yaml, or json for a file *.json")
        export.add_argument(
            "--to", metavar="PLACE", help="file, or directory for a file of each object (default: standard output)"
        )
        store = doing.add_parser("import", help="store the definitions of files: all or none")
        store.add_argument(
            "files",
            nargs="+",
            metavar="FILE",
            help="file in YAML, or in JSON if it ends in .json; - reads standard input",
        )
        store.add_argument("--from-manifoldcf", action="store_true", help="the files are JSON of ManifoldCF's REST API")
        store.add_argument("--dry-run", action="store_true", help="show the changes without storing them")

        convert = doing.add_parser("convert", help="write the definitions of files from ManifoldCF to standard output")
        convert.add_argument("files", nargs="+", metavar="FILE", help="JSON as ManifoldCF's REST API prints it")
        convert.add_argument("--format", choices=texts.FORMATS, default=texts.YAML)

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        getattr(self, f"_{verb}")(given)

    # --- Export ------------------------------------------------------------------------------------

    def _export(self, given: dict[str, Any]) -> None:
        definitions = _chosen(given)
        place = None if given["to"] is None else Path(given["to"])
        by_name = texts.JSON if place is not None and place.suffix == ".json" else texts.YAML
        text_format = given["format"] or by_name
        try:
            if place is None:
                for part in texts.write(definitions, text_format=text_format):
                    self.stdout.write(part, ending="")
            elif place.is_dir() or given["to"].endswith("/"):
                self._write_each(definitions, place, text_format=text_format)
            else:
                with place.open("w", encoding="utf-8") as file:
                    file.writelines(texts.write(definitions, text_format=text_format))
        except BrokenPipeError:
            # The reader of the output has closed it, as `head` does.
            raise
        except OSError as error:
            raise CommandError(f"Cannot write {error.filename or place}: {error.strerror}.", returncode=1) from error

    def _write_each(self, definitions: Iterable[Definition], directory: Path, *, text_format: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for definition in definitions:
            stem = _stem_of(definition)
            if stem.lower() in taken:
                digest = hashlib.sha256(definition["name"].encode()).hexdigest()[:8]
                stem = f"{stem}-{digest}"
            taken.add(stem.lower())
            file = directory / f"{stem}.{text_format}"
            as_text = texts.as_yaml(definition) if text_format == texts.YAML else f"{texts.as_json(definition)}\n"
            file.write_text(as_text, encoding="utf-8")
            self.stdout.write(str(file))

    # --- Import ------------------------------------------------------------------------------------

    def _import(self, given: dict[str, Any]) -> None:
        if given["from_manifoldcf"]:
            converted = self._converted(given["files"])
            read = [importing.Given(place, definition) for place, definition in converted]
        else:
            read = list(_read_files(given["files"]))
        self._store(read, dry_run=given["dry_run"])

    # --- ManifoldCF --------------------------------------------------------------------------------

    def _convert(self, given: dict[str, Any]) -> None:
        definitions = (definition for _, definition in self._converted(given["files"]))
        for part in texts.write(definitions, text_format=given["format"]):
            self.stdout.write(part, ending="")

    def _converted(self, files: Iterable[str]) -> list[tuple[str, Definition]]:
        """Return the definitions of files from ManifoldCF with their places. Notes go to standard error."""
        bodies = [(file, body) for file in files for body in read_file(file, text_format=texts.JSON)]
        conversion = convert(bodies, connector_of=_connector_of)
        for note in conversion.notes:
            self.stderr.write(f"{note.place}: {note.why}", self.style.NOTICE)
        return conversion.definitions

    def _store(self, given: list[importing.Given], *, dry_run: bool) -> None:
        try:
            changes = importing.import_definitions(
                given, may=may_do_everything, made_by=getpass.getuser(), dry_run=dry_run
            )
        except importing.Refused as refused:
            lines = [_line_of(problem) for problem in refused.problems]
            raise CommandError("\n".join([*lines, "Nothing was changed."]), returncode=2) from refused
        except NotAllowed as refused:
            raise CommandError(str(refused), returncode=1) from refused
        except IntegrityError as error:
            said = "Another user stored one of these objects at this moment. Nothing was changed. Repeat the command."
            raise CommandError(said, returncode=1) from error
        for change in changes:
            self.stdout.write(f"{change.definition} {change.name}: {change.result}")
            for name, pair in change.fields.items():
                self.stdout.write(f"  {name}: {_value(pair['before'])} → {_value(pair['after'])}")
            for warning in change.warnings:
                self.stdout.write(f"  warning: {warning}")
        numbers = [f"{sum(change.result is result for change in changes):,} {result}" for result in importing.Result]
        end = " Nothing was stored (--dry-run)." if dry_run else ""
        self.stdout.write(f"{', '.join(numbers)}.{end}")


def _chosen(given: dict[str, Any]) -> Iterator[Definition]:
    """
    Return the definitions that the options choose.

    Raises:
        CommandError: the options choose no definition, or name an unknown object.
    """
    named = {name: list(dict.fromkeys(given[name])) for name in SUBJECTS}
    if given["all"] == any(named.values()):
        options = ", ".join(f"--{name} NAME" for name in SUBJECTS)
        raise CommandError(f"Choose what to export: --all, or any of {options}.", returncode=2)
    if given["all"]:
        return read_all()
    rows = {}
    for name, names in named.items():
        subject = SUBJECTS[name]
        rows[subject] = list(subject.rows().filter(name__in=names).order_by("name"))
        unknown = set(names) - {row.name for row in rows[subject]}
        if unknown:
            said = ", ".join(repr(one) for one in sorted(unknown))
            raise CommandError(f"No {name} has the name {said}.", returncode=2)
    return read_rows(rows, alone=given["alone"])


def _read_files(files: Iterable[str]) -> Iterator[importing.Given]:
    """
    Yield the definitions of files.

    Raises:
        CommandError: a file cannot be read, or is neither YAML nor JSON.
    """
    for file in files:
        documents = read_file(file) or [None]
        for number, body in enumerate(documents, start=1):
            place = file if len(documents) == 1 else f"{file}, document {number}"
            items = importing.items_of(body)
            for item, one in enumerate([body] if items is None else items, start=1):
                yield importing.Given(place if items is None else f"{place}, item {item}", one)


def read_file(file: str, *, text_format: str | None = None) -> list[Any]:
    """
    Return the values of a file: one value from JSON, or one for each document of YAML.

    Raises:
        CommandError: the file cannot be read, or is neither JSON nor YAML.
    """
    try:
        if file == "-":
            text = sys.stdin.buffer.read(texts.MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                text = opened.read(texts.MOST_BYTES + 1)
        by_name = texts.JSON if file.endswith(".json") else texts.YAML
        return texts.read(text, text_format=text_format or by_name)
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}.", returncode=2) from error
    except texts.BadText as bad:
        raise CommandError(f"{file}: {bad} Nothing was changed.", returncode=2) from bad


def _connector_of(name: str) -> str | None:
    """Return the connector of a stored repository; None if no repository has this name."""
    return RepositoryConnection.objects.filter(name=name).values_list("connector", flat=True).first()


def _line_of(problem: importing.Problem) -> str:
    where = ": ".join(filter(None, (problem.place, problem.about, problem.field)))
    said = " ".join(problem.sentences)
    return f"{where}: {said}" if where else said


def _value(value: object) -> str:
    if value is None:
        return "nothing"
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _LONGEST_VALUE else f"{written[:_LONGEST_VALUE]}…"


def _stem_of(definition: Definition) -> str:
    """Return the name of the file of an object, without its ending."""
    readable = _NOT_IN_NAMES.sub("-", definition["name"]).strip("-.")[:_LONGEST_STEM]
    if readable != definition["name"]:
        digest = hashlib.sha256(definition["name"].encode()).hexdigest()[:8]
        readable = f"{readable}-{digest}".strip("-")
    return f"{definition['definition']}-{readable}"
