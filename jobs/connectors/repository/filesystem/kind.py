"""File systems as a kind of source: the specification of a job, and its seeds."""

import os
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.base import RetryLimit
from jobs.connectors.repository.filesystem import paths
from jobs.connectors.repository.filesystem.connector import bin_of
from jobs.connectors.repository.filesystem.runtime import FileRuntime
from jobs.connectors.repository.filesystem.specification import (
    CONFIGURATION,
    SPECIFICATION,
    AccessSource,
    FileSpecification,
)
from jobs.connectors.repository.filesystem.tree import Tree
from jobs.connectors.repository.kind import BinKind, Checked, Judged, Seeding, SeedingFailed, SourceSettings
from jobs.connectors.repository.web.scope import BadPattern
from jobs.connectors.roots import why_not_read
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.scan import Model

_RETRY_SEEDING: Final = 10.0
_LONGEST_SEEDING: Final = 300.0


class FileSystemKind:
    name: Final = "filesystem"
    label: Final = _("File system")
    # A run reads every known path, so the removal of a file is noticed when its path is read.
    model: Final = Model.CHAINED_ADD_CHANGE
    link_types: Final = ("child",)
    bins: Final = BinKind(namespace="filesystem", asks_first=False, requests=32, gap=0.0)
    configuration: Final = CONFIGURATION
    specification: Final = SPECIFICATION

    def has_tokens(self, configuration: Mapping[str, Any]) -> bool:
        """True if the files of this connection have access tokens, so that it needs an authority group."""
        return str(configuration.get("access", AccessSource.NONE)) != AccessSource.NONE

    def canonical(self, typed: str) -> str:
        return paths.canonical(typed)

    def check(self, source: SourceSettings) -> Checked:
        try:
            specification = FileSpecification.read(source)
            specification.rules()
        except BadSpecification as error:
            return Checked({error.field: [str(error)]})
        except BadPattern as error:
            return Checked({"specification": [str(error)]})
        why = why_not_read(specification.roots) if source.is_confined else ""
        return Checked({"roots": [why]} if why else {})

    def judge(self, source: SourceSettings, identifier: str, *, is_seed: bool) -> Judged:
        specification = FileSpecification.read(source)
        rules, path = specification.rules(), paths.path_of(identifier)
        if Tree(specification.roots, follows_links=False).root_of(path) is None:
            return Judged(refusal="outside of the directories of its connection")
        if not (rules.admits_file(path) or rules.admits_directory(path)):
            return Judged(refusal="the include and exclude rules do not admit it")
        return Judged(rule="inside of the directories of its connection; the include and exclude rules admit it")

    def status(self, configuration: Mapping[str, Any]) -> str:
        for root in FileSpecification.read(SourceSettings(configuration)).roots:
            if problem := problem_of_root(root):
                return problem
        return ""

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        specification = FileSpecification.read(source)
        if source.is_confined and (why := why_not_read(specification.roots)):
            raise SeedingFailed(why, retry_after=_RETRY_SEEDING, limit=RetryLimit(attempts=1, aborts_job=True))
        tree = Tree(specification.roots, follows_links=False)
        for path in specification.seeds:
            root = tree.root_of(path)
            assert root is not None
            # A disk that is not mounted must not look like an empty disk. `Tree` checks for an empty mount point.
            if problem := problem_of_root(root):
                limit = RetryLimit(seconds=_LONGEST_SEEDING, aborts_job=True)
                raise SeedingFailed(problem, retry_after=_RETRY_SEEDING, limit=limit)
            seeding.add(paths.identifier_of(path), bin=bin_of(path, root))
        return ""

    def runtime(self) -> FileRuntime:
        return FileRuntime()


def problem_of_root(root: bytes) -> str:
    """Return the reason why a root cannot be read, as a sentence; "" if it can."""
    try:
        with os.scandir(root):
            return ""
    except OSError as error:
        return f"{paths.shown(root)} cannot be read: {os.strerror(error.errno or 0)}."


FILE_SYSTEM: Final = FileSystemKind()
