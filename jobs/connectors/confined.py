"""
Reasons why a confined connection lies outside of the roots of this process (`jobs.connectors.roots`).

Only connections that pages or the API stored are confined. Callers pass no other connections.
"""

from collections.abc import Mapping
from typing import Any, Final

from jobs.connectors.output.jsonl import JsonLinesConfiguration
from jobs.connectors.output.registry import check_configuration
from jobs.connectors.repository.archive.kind import ARCHIVE
from jobs.connectors.repository.archive.specification import ArchiveSpecification
from jobs.connectors.repository.filesystem.kind import FILE_SYSTEM
from jobs.connectors.repository.filesystem.specification import FileSpecification
from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.roots import why_not_read, why_not_written
from jobs.connectors.schema import BadSpecification

# Connectors to which the roots apply.
CONFINED_REPOSITORIES: Final = (FILE_SYSTEM.name, ARCHIVE.name)
CONFINED_OUTPUT: Final = "jsonl"


def why_repository_outside(connector: str, configuration: Mapping[str, Any]) -> str:
    """Return the reason why a confined repository may not be read, as a sentence; "" if it may."""
    try:
        if connector == FILE_SYSTEM.name:
            return why_not_read(FileSpecification.read(SourceSettings(configuration)).roots)
        if connector == ARCHIVE.name:
            return why_not_read(ArchiveSpecification.read(SourceSettings(configuration)).roots)
    except BadSpecification:
        # The connector reports invalid values when it is opened.
        return ""
    return ""


def why_output_outside(connector: str, configuration: Mapping[str, Any]) -> str:
    """Return the reason why a confined output may not be written, as a sentence; "" if it may."""
    if connector != CONFINED_OUTPUT:
        return ""
    try:
        read = check_configuration(connector, configuration)
    except BadSpecification:
        return ""
    return why_not_written(read.path) if isinstance(read, JsonLinesConfiguration) else ""
