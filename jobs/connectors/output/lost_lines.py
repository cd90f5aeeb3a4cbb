"""The remembered lengths of JSON lines files on this machine, and the table of files that lost lines."""

import socket
from functools import partial
from pathlib import Path
from typing import Final, LiteralString

from django.conf import settings
from django.db import connection

from jobs.connectors.output.jsonl_length import LengthMemory

# Directory below var/, with one small file for each output.
DIRECTORY: Final = "output-lengths"

# No loss is stored for an output without documents in this database. It may be a new output with the id of an older
# one.
_INSERT: Final[LiteralString] = """
INSERT INTO jobs_lostlines (output_id, machine, noticed_at, was_bytes, is_bytes)
SELECT id, %(machine)s, now(), %(was)s, %(is)s FROM jobs_outputconnection AS output
 WHERE id = %(output)s AND EXISTS (SELECT FROM jobs_indexeddocument AS held WHERE held.output_id = output.id)
ON CONFLICT (output_id, machine) DO UPDATE
   SET noticed_at = excluded.noticed_at, was_bytes = excluded.was_bytes, is_bytes = excluded.is_bytes
"""


def memory_of(output_id: int, path: Path) -> LengthMemory:
    """Return this machine's memory of the file of an output."""
    state = Path(settings.VAR_DIR) / DIRECTORY / f"{output_id}.json"
    return LengthMemory(state, path=path, output_id=output_id, report=partial(_insert, output_id))


def _insert(output_id: int, was: int, is_: int) -> None:
    """
    Store that lines were lost on this machine.

    The row has its own transaction on Django's connection, so the rollback of a flush does not remove it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"output": output_id, "machine": socket.gethostname(), "was": was, "is": is_})
