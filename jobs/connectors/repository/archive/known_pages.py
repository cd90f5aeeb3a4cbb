"""The stored facts of an archived page that was read, so that the next run need not read it again."""

import json
from dataclasses import astuple, dataclass
from typing import Self

from jobs.connectors.repository.archive.locations import Location


@dataclass(frozen=True, slots=True)
class KnownPage:
    """
    The location of the answer that was read under a configuration of the job.

    `code` is the result code of a page that is not indexed, "" for an indexed page.
    """

    configuration: str
    location: str
    code: str = ""

    @classmethod
    def read(cls, stored: str) -> Self | None:
        facts = json.loads(stored or "null")
        return cls(*facts) if isinstance(facts, list) else None

    @property
    def stored(self) -> str:
        return json.dumps(astuple(self))

    def holds(self, newest: Location, *, configuration: str) -> bool:
        """True if this answer is still the newest one, under the same configuration."""
        return self.location == newest.text and self.configuration == configuration
