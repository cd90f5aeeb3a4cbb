"""Archives as a kind of source: the specification of a job, and its seeds."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.archive.connector import bin_of_file
from jobs.connectors.repository.archive.places import read_place
from jobs.connectors.repository.archive.runtime import ArchiveRuntime
from jobs.connectors.repository.archive.specification import CONFIGURATION, SPECIFICATION, ArchiveSpecification
from jobs.connectors.repository.base import RetryLimit
from jobs.connectors.repository.filesystem.kind import problem_of_root
from jobs.connectors.repository.filesystem.tree import Tree
from jobs.connectors.repository.kind import BinKind, Checked, Seeding, SeedingFailed, SourceSettings
from jobs.connectors.roots import why_not_read
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.scan import Model

_RETRY_SEEDING: Final = 10.0
_LONGEST_SEEDING: Final = 300.0


class ArchiveKind:
    name: Final = "archive"
    label: Final = _("Archives")
    # A run begins with the seeds alone, so a page that no file has any more is not reached, and is removed.
    model: Final = Model.ALL
    link_types: Final = ("part", "record")
    bins: Final = BinKind(namespace="archive", asks_first=False, requests=16, gap=0.0)
    configuration: Final = CONFIGURATION
    specification: Final = SPECIFICATION

    def canonical(self, typed: str) -> str:
        return read_place(typed).identifier

    def check(self, source: SourceSettings) -> Checked:
        try:
            specification = ArchiveSpecification.read(source)
        except BadSpecification as error:
            return Checked({error.field: [str(error)]})
        why = why_not_read(specification.roots) if source.is_confined else ""
        return Checked({"roots": [why]} if why else {})

    def status(self, configuration: Mapping[str, Any]) -> str:
        roots = ArchiveSpecification.read(SourceSettings(configuration)).roots
        return next(filter(None, map(problem_of_root, roots)), "")

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        specification = ArchiveSpecification.read(source)
        if source.is_confined and (why := why_not_read(specification.roots)):
            raise SeedingFailed(why, retry_after=_RETRY_SEEDING, limit=RetryLimit(attempts=1, aborts_job=True))
        tree = Tree(specification.roots, follows_links=False)
        for place in specification.seeds:
            root = tree.root_of(place.path)
            assert root is not None
            # A disk that is not mounted must not look like an empty disk. `Tree` checks for an empty mount point.
            if problem := problem_of_root(root):
                limit = RetryLimit(seconds=_LONGEST_SEEDING, aborts_job=True)
                raise SeedingFailed(problem, retry_after=_RETRY_SEEDING, limit=limit)
            seeding.add(place.identifier, bin=bin_of_file(place.path))
        return ""

    def runtime(self) -> ArchiveRuntime:
        return ArchiveRuntime()


ARCHIVE: Final = ArchiveKind()
