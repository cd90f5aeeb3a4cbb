"""
ManifoldCF's transformation connections as stages. One connection may become two stages, such as one for the text and
one for the metadata.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.connectors.transformation import registry, tika
from jobs.definitions.manifoldcf.nodes import Part

_PACKAGE: Final = "org.apache.manifoldcf.agents.transformation."
# The value of a filter that lets everything pass.
_ALL: Final = "*"
# Parameters of a Tika server if a connection names none.
_TIKA_HOST: Final = "localhost"
_TIKA_PORT: Final = "9998"
# The selector of ManifoldCF's HTML extractor if a job names none.
_WHOLE_PAGE: Final = "body"

Settings = dict[str, Any]
# The kind of a stage, and its settings.
StageMade = tuple[str, Settings]


@dataclass(frozen=True, slots=True)
class Transformation:
    """A transformation connection: its class, and its parameters by name."""

    class_name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    max_connections: str = ""


def read_transformation(part: Part) -> tuple[str, Transformation]:
    """Return the name of a connection, and the connection."""
    name, class_name = part.take_one("name"), part.take_one("class_name")
    parameters = {
        parameter.take_attribute("name"): parameter.take_text().strip()
        for configuration in part.take("configuration")
        for parameter in configuration.take("_PARAMETER_")
    }
    return name, Transformation(class_name, parameters, part.take_one("max_connections"))


def convert_stage(given: Part, connection: str, transformation: Transformation | None) -> list[StageMade]:
    """
    Return the stages for a stage of ManifoldCF, in their order. A stage without an equivalent gives a note and no
    stage.
    """
    specifications = given.take("stage_specification")
    if transformation is None:
        given.note(f"The transformation connection {connection!r} is not among the files, so the stage is left out.")
        return []
    convert = _KINDS.get(transformation.class_name.removeprefix(_PACKAGE))
    if convert is None:
        given.note(f"crawlctl has no transformation {transformation.class_name}, so {connection} is left out.")
        return []
    # The parts of a specification may be in one object or in several ones.
    joined = Part("stage_specification", specifications[0].place if specifications else given.place, given.notes)
    for specification in specifications:
        joined.children += specification.children
        specification.children = []
        specification.left()
    made = convert(joined, transformation)
    joined.left()
    for kind, settings in made:
        for name, said in registry.find(kind).check(settings).items():
            given.note(f"{name} is left out: {' '.join(said)}")
            settings.pop(name, None)
    return made


def _allowed(part: Part, _transformation: Transformation) -> list[StageMade]:
    """Convert ManifoldCF's Allowed documents."""
    settings: Settings = {}
    for theirs, ours in {"minlength": "min_bytes", "maxlength": "max_bytes"}.items():
        for given in part.take(theirs):
            said = given.take_attribute("value")
            if said.isascii() and said.isdigit():
                if int(said):
                    settings[ours] = int(said)
            elif said:
                given.note(f"{said!r} is not a number.")
    for given in part.take("mimetypes"):
        types = given.take_text().split()
        if types and _ALL not in types:
            settings["content_types"] = types
    for given in part.take("extensions"):
        extensions = given.take_text().split()
        if extensions and _ALL not in extensions:
            settings["include"] = [rf"(?i)\.({'|'.join(map(re.escape, extensions))})([?#]|$)"]
    return [("allowed", settings)]


def _metadata(part: Part, _transformation: Transformation) -> list[StageMade]:
    """Convert ManifoldCF's Metadata adjuster."""
    renamed, removed, named = _field_map(part, names={})
    set_ = []
    for kind in ("expression", "pair"):
        for given in part.take(kind):
            name, value = given.take_attribute("parameter"), given.take_attribute("value")
            if value:
                set_.append(f"{name} = {value}")
            else:
                removed.append(name)
    # The setting has no equivalent, because crawlctl never keeps empty values.
    _values(part, "filterEmpty")
    kept = _kept(part, [*named, *(line.partition(" = ")[0] for line in set_)])
    found = {"rename": renamed, "set": set_, "remove": removed, "keep": kept}
    return [("metadata", {name: values for name, values in found.items() if values})]


def _text(part: Part, _transformation: Transformation) -> list[StageMade]:
    """Convert ManifoldCF's stage that reads the text of files by Tika within ManifoldCF's own process."""
    if any(_values(part, "boilerplateprocessor")):
        part.note("The text is not freed of repeated parts of a page.")
    return [("extract", {}), *_metadata_of_tika(part)]


def _tika_server(part: Part, transformation: Transformation) -> list[StageMade]:
    """Convert ManifoldCF's connections to a Tika server."""
    parameters = transformation.parameters
    host, port = parameters.get("tikaHostname") or _TIKA_HOST, parameters.get("tikaPort") or _TIKA_PORT
    settings: Settings = {"url": f"http://{host}:{port}"}
    milliseconds = parameters.get("socketTimeout", "")
    if milliseconds.isascii() and milliseconds.isdigit() and int(milliseconds):
        settings["seconds"] = max(int(milliseconds) / 1000, 1)
    connections = transformation.max_connections
    if connections.isascii() and connections.isdigit() and int(connections):
        settings["connections"] = int(connections)
    if "false" in _values(part, "extractArchives"):
        part.note("Members of archives become parts of the document.")
    return [("tika", settings), *_metadata_of_tika(part)]


def _metadata_of_tika(part: Part) -> list[StageMade]:
    """Convert the settings of both kinds of Tika for metadata. Names of Tika become those of crawlctl."""
    renamed, removed, named = _field_map(part, names=tika.NAMES)
    kept = _kept(part, named)
    # crawlctl's names of metadata are in lower case.
    _values(part, "lowerNames")
    if any(value not in {"", "-1"} for value in _values(part, "writeLimit")):
        part.note("The text of a document is not cut.")
    if "true" in _values(part, "ignoreException"):
        part.note("A document that cannot be read ends with EXTRACTION_FAILED, and is not sent without its text.")
    found = {"rename": renamed, "remove": removed, "keep": kept}
    return [("metadata", {name: values for name, values in found.items() if values})] if any(found.values()) else []


def _html(part: Part, _transformation: Transformation) -> list[StageMade]:
    """Convert ManifoldCF's HTML extractor. Its filters are CSS selectors, in an attribute `regex`."""
    includes = [selector for given in part.take("includefilter") if (selector := given.take_attribute("regex"))]
    removed = [selector for given in part.take("excludefilter") if (selector := given.take_attribute("regex"))]
    text = includes[0] if includes else _WHOLE_PAGE
    if includes[1:]:
        part.note(f"ManifoldCF uses only the first of several filters, {text!r}. The others are left out.")
    if text != _WHOLE_PAGE:
        part.note(f"The text has all elements of {text!r}, and a page without one has no text.")
    if "false" in _values(part, "striphtml"):
        part.note("The text never has tags.")
    part.note("Metadata of a page have no prefix jsoup_.")
    return [("html", {"text": [text], **({"remove": removed} if removed else {})})]


def _nothing(_part: Part, _transformation: Transformation) -> list[StageMade]:
    return [("null", {})]


def _field_map(part: Part, *, names: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
    """
    Return the lines that rename metadata, the removed names, and the names after renaming.

    `names` has crawlctl's names for some names of ManifoldCF.
    """
    renamed, removed, named = [], [], []
    for given in part.take("fieldmap"):
        source, target = given.take_attribute("source"), given.take_attribute("target")
        ours = names.get(source, source)
        if not target:
            removed.append(ours)
            continue
        named.append(target)
        if ours != target:
            renamed.append(f"{ours} = {target}")
    return renamed, removed, named


def _kept(part: Part, named: Sequence[str]) -> list[str]:
    """Return the names that are kept; an empty list if all names are kept."""
    if "false" not in _values(part, "keepAllMetadata")[:1]:
        return []
    if not named:
        part.note("Without a name to keep, the stage keeps all metadata.")
    return list(named)


def _values(part: Part, kind: str) -> list[str]:
    return [given.take_attribute("value") for given in part.take(kind)]


_KINDS: Final[Mapping[str, Callable[[Part, Transformation], list[StageMade]]]] = {
    "documentfilter.DocumentFilter": _allowed,
    "forcedmetadata.ForcedMetadataConnector": _metadata,
    "tika.TikaExtractor": _text,
    "tikaservice.TikaExtractor": _tika_server,
    "tikaservice.rmeta.TikaExtractor": _tika_server,
    "htmlextractor.HtmlExtractor": _html,
    "nullconnector.NullConnector": _nothing,
}
