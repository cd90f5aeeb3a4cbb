"""A stage that does what a hostile file could make a reader do."""

import os
from dataclasses import replace

from jobs.connectors.schema import NOTHING
from jobs.connectors.transformation.base import Runs, Stage, TransformationKind


class Obedient(Stage):
    description = "hostile"

    def transform(self, item):
        if item.text.startswith("exit"):
            os._exit(7)
        if item.text.startswith("compute"):
            while True:
                pass
        if item.text.startswith("allocate"):
            bytearray(2**32)
        return (replace(item, text=f"{item.text} (process {os.getpid()})"),)


HOSTILE = TransformationKind(
    name="hostile", label="Hostile", settings=NOTHING, open=lambda _values: Obedient(), runs_in=Runs.IN_PROCESS
)
