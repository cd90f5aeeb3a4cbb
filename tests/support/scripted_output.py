"""
The scriptable output: an output that a test controls.

It logs each write as a line of a file that all processes of a cluster share. The fixture `sink` makes one, and
installs the connector for this process and its children.

    job = world.make_job(seeds=["a"], outputs=[sink.connection()])
    sink.hold("complete")      # a notification of an end waits until sink.let_go("complete")
    sink.hold("remove")        # a removal of a document waits
    sink.refuse("complete", "It is full.")          # and sink.let_go("complete")
    sink.told()                # [("add", url), ("remove", url), ("complete", ""), …], in order
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from jobs.connectors.output.base import Entry, OutputError
from jobs.connectors.output.registry import OutputKind
from jobs.connectors.schema import Field, FieldKind, Schema

# Interval at which a waiting process checks whether its step was released (seconds).
_INTERVAL: Final = 0.02


class Sink:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def connection(self, name: str = "sink") -> Any:
        from jobs.models import OutputConnection

        facts = {"connector": "scripted-output", "configuration": {"directory": str(self.directory)}}
        return OutputConnection.objects.get_or_create(name=name, defaults=facts)[0]

    def hold(self, what: str) -> None:
        self._file(what).write_text("")

    def refuse(self, what: str, why: str) -> None:
        self._file(what).write_text(why)

    def let_go(self, what: str) -> None:
        self._file(what).unlink(missing_ok=True)

    def told(self) -> list[tuple[str, str]]:
        try:
            return [tuple(json.loads(line)) for line in (self.directory / "told").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def waits(self, what: str) -> bool:
        """True if a process waits at a held step."""
        return (self.directory / f"waits-{what}").exists()

    def note(self, what: str, url: str = "") -> None:
        with (self.directory / "told").open("ab", buffering=0) as told:
            told.write(json.dumps([what, url]).encode() + b"\n")

    def pass_by(self, what: str) -> None:
        """
        Wait while this step is held.

        Raises:
            OutputError: the step is refused.
        """
        while (file := self._file(what)).exists():
            if why := file.read_text():
                raise OutputError(why)
            (self.directory / f"waits-{what}").touch()
            time.sleep(_INTERVAL)
        (self.directory / f"waits-{what}").unlink(missing_ok=True)

    def _file(self, what: str) -> Path:
        return self.directory / f"before-{what}"


@dataclass(frozen=True, slots=True)
class ScriptedConfiguration:
    directory: str


class ScriptedOutput:
    holds: Final = True
    is_transactional: Final = False

    def __init__(self, *, id: int, configuration: ScriptedConfiguration) -> None:  # noqa: A002 (the name in the row)
        self.id = id
        self._sink = Sink(Path(configuration.directory))

    def check(self) -> None:
        return

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        self._sink.pass_by("add")
        for entry in entries:
            self._sink.note("add", entry.url)

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        self._sink.pass_by("remove")
        for entry in entries:
            self._sink.note("remove", entry.url)

    def job_complete(self) -> None:
        self._sink.pass_by("complete")
        self._sink.note("complete")


SCRIPTED: Final = OutputKind(
    "scripted-output",
    "Scripted",
    Schema((Field(name="directory", kind=FieldKind.TEXT, label="Directory", is_required=True),)),
    ScriptedConfiguration,
    ScriptedOutput,
    hears_of_ends=True,
)
OUTPUTS: Final = ("tests.support.scripted_output:SCRIPTED",)
