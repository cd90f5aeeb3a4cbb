"""
The scriptable connector: a source that a test controls.

Its *world* is a directory that all processes of a cluster share, and a test may change it during the crawl.
The fixture `world` makes one, and installs the connector for this process and its children.

    world.put("a", text="words", links=["b", ("c", "peer")], carry={"b": {"colour": ["red"]}})
    world.put("b", interruptions=2, retry_after=0.1)      # the first two requests are interrupted
    world.put("c", waits_for="go")                        # until world.signal("go")
    job = world.make_job(seeds=["a"])                     # through `control`, into the null output
    ...
    world.put("a", text="other words")                    # another version
    world.remove("b")                                     # the document no longer exists
    world.asked("b")                                      # how often it was processed
    world.log()                                           # all requests in order

The name of a document is a word, `a`, or a word in its own bin, `there/a` (the default bin is `here`).
`world.url("a")` is its identifier, `scripted://here/a`, which is also the form of a seed.

The arguments of `put` set the behaviour of a document:

- `text` is its content. None means nothing to index. `version` is the version of the source, by default the text.
  Carry-down data of a document is part of its version.
- `links` are names of documents for links of type "link", or pairs (name, type). `carry` passes values to some of them:
  {name of the other: {name: [values]}}.
- `interruptions=n`: the first n requests since the last `put` are interrupted, and retried `retry_after` seconds
  later. `limit` is a `RetryLimit`. -1 interrupts every request.
- `redirects_to` names the target of a redirect, instead of a text. `fails="CODE"` ends the document with this code.
- `seconds` is the duration of a request. `waits_for` names a signal that the request waits for.
- `kills=True`: the worker that processes it is killed (SIGKILL).
- `parts` are its parts: {path: text}. `retains` names parts that outputs keep, `retains_others` keeps all that are not
  named, and `removes` names parts that leave.
- `bounds` is a `ScheduleBounds`, `originated_at` a moment, `access` an `Access`, which is part of the version.

Seeding lists the documents of the job's seeds. `world.seeding(...)` changes it: `interruptions`, `retry_after`,
`limit`, `seconds` and `waits_for` as above. `names` are additional documents, and `version` is the returned version.
`world.seedings()` returns the last version that each seeding was given.

A job whose specification `excludes` names, one a line, refuses these documents and links to them. With a `separator`,
its links lose the part of a name from there on, and it refuses documents with such names.

There is one connector for each model, such as `scripted-all` (the default of `world.make_job`) and
`scripted-add-change-delete`: `connector_of(Model.ADD_CHANGE)`.
"""

import asyncio
import datetime as dt
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from jobs.connectors.repository.access import OPEN, Access
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Content, Document, RetryLimit, ScheduleBounds, hash_of
from jobs.connectors.repository.kind import (
    BadIdentifier,
    BinKind,
    Checked,
    Pace,
    Runtime,
    Seeding,
    SeedingFailed,
    SourceSettings,
)
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema
from jobs.lifecycle.scan import Model

_SCHEME: Final = "scripted://"
_USUAL_BIN: Final = "here"
# Interval at which a waiting document checks for its signal (seconds).
_INTERVAL: Final = 0.02


def connector_of(model: Model) -> str:
    """Return the name of the scriptable connector of this model."""
    return f"scripted-{model.replace('_', '-')}"


def url_of(name: str) -> str:
    bin_, _, word = name.rpartition("/")
    return f"{_SCHEME}{quote(bin_ or _USUAL_BIN)}/{quote(word)}"


def name_of(url: str) -> str:
    """
    Return the name of the document at this address.

    Raises:
        BadIdentifier: the text is not an address of a scripted document.
    """
    bin_, slash, word = url.removeprefix(_SCHEME).partition("/")
    if not url.startswith(_SCHEME) or not slash or not word or "/" in word:
        raise BadIdentifier(f"{url!r} names no scripted document: write {_SCHEME}{_USUAL_BIN}/NAME")
    return unquote(word) if bin_ == _USUAL_BIN else f"{unquote(bin_)}/{unquote(word)}"


def bin_of(url: str) -> str:
    return url.removeprefix(_SCHEME).partition("/")[0]


class World:
    """A world of documents in a directory, with a log of requests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for part in ("documents", "signals"):
            (directory / part).mkdir(parents=True, exist_ok=True)

    # --- Commands of a test ----------------------------------------------------------------------

    def put(
        self,
        name: str,
        *,
        text: str | None = "words",
        version: str | None = None,
        links: "list[str | tuple[str, str]] | tuple[()]" = (),
        carry: Mapping[str, Mapping[str, list[str]]] | None = None,
        interruptions: int = 0,
        retry_after: float = 0.05,
        limit: RetryLimit | None = None,
        fails: str = "",
        redirects_to: str = "",
        seconds: float = 0.0,
        waits_for: str = "",
        kills: bool = False,
        bounds: ScheduleBounds | None = None,
        originated_at: dt.datetime | None = None,
        access: Access = OPEN,
        parts: Mapping[str, str] | None = None,
        retains: "list[str] | tuple[()]" = (),
        retains_others: bool = False,
        removes: "list[str] | tuple[()]" = (),
    ) -> str:
        """Put a document with this content, and return its identifier."""
        script = {
            "text": text,
            "version": version if version is not None else (text or ""),
            "links": [[link, "link"] if isinstance(link, str) else list(link) for link in links],
            "carry": carry or {},
            "interruptions": interruptions,
            "retry_after": retry_after,
            "limit": asdict(limit) if limit else None,
            "fails": fails,
            "redirects_to": redirects_to,
            "seconds": seconds,
            "waits_for": waits_for,
            "kills": kills,
            "bounds": asdict(bounds) if bounds else None,
            "originated_at": originated_at.isoformat() if originated_at else None,
            "access": access.as_json(),
            "parts": parts or {},
            "retains": list(retains),
            "retains_others": retains_others,
            "removes": list(removes),
            "asked_before": self.asked(name),
        }
        self._write(self._file(name), script)
        return url_of(name)

    def remove(self, name: str) -> None:
        """Remove the document. Later requests for it learn that it no longer exists."""
        self._file(name).unlink()

    def signal(self, name: str) -> None:
        """Release all present and future waiters of this signal."""
        (self.directory / "signals" / name).touch()

    def seeding(
        self,
        *,
        names: "list[str] | tuple[()]" = (),
        version: str = "",
        interruptions: int = 0,
        retry_after: float = 0.05,
        limit: RetryLimit | None = None,
        seconds: float = 0.0,
        waits_for: str = "",
    ) -> None:
        """Set the behaviour of seeding from now on."""
        script = {
            "names": list(names),
            "version": version,
            "interruptions": interruptions,
            "retry_after": retry_after,
            "limit": asdict(limit) if limit else None,
            "seconds": seconds,
            "waits_for": waits_for,
            "asked_before": len(self.seedings()),
        }
        self._write(self.directory / "seeding.json", script)

    # --- The log of requests ---------------------------------------------------------------------

    def url(self, name: str) -> str:
        return url_of(name)

    def log(self) -> list[dict[str, Any]]:
        """Return all requests so far, in order: {"what", "name", "at", …}; `at` counts seconds."""
        try:
            lines = (self.directory / "log").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def asked(self, name: str) -> int:
        """Return the number of times that the document was processed."""
        return sum(entry["what"] == "process" and entry["name"] == name for entry in self.log())

    def processed(self) -> list[str]:
        """Return the processed documents in order, with repetitions."""
        return [entry["name"] for entry in self.log() if entry["what"] == "process"]

    def seedings(self) -> list[str]:
        """Return the last version that each seeding was given."""
        return [entry["last_version"] for entry in self.log() if entry["what"] == "seed"]

    # --- Jobs ------------------------------------------------------------------------------------

    def make_connection(self, *, model: Model = Model.ALL) -> Any:
        """Return the repository connection of this world."""
        from jobs.models import RepositoryConnection

        connector = connector_of(model)
        defaults = {"connector": connector, "configuration": {"world": str(self.directory)}}
        name = f"{connector} in {self.directory}"[-200:]
        return RepositoryConnection.objects.get_or_create(name=name, defaults=defaults)[0]

    def make_job(self, name: str = "scripted", *, seeds: list[str], model: Model = Model.ALL, **facts: Any) -> Any:
        """Return a stopped job that begins with these documents. Facts are those of `editing.create_job`."""
        from jobs.verbs import editing
        from jobs.verbs.seeds import SeedWanted
        from tests.support.factories import NOON, make_output

        # These sites have a few pages, so the delete guard would ask at each change.
        usual = {
            "outputs": [make_output()],
            "specification": {},
            "guard_percent": None,
            "made_by": "a test",
            "now": NOON,
        }
        return editing.create_job(
            name=name,
            repository=self.make_connection(model=model),
            seeds=[SeedWanted(tuple(url_of(seed) for seed in seeds))],
            **(usual | facts),
        ).job

    # --- The connector's side --------------------------------------------------------------------

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the present content of the document, or None if it was removed."""
        return self._read(self._file(name))

    def read_seeding(self) -> dict[str, Any]:
        return self._read(self.directory / "seeding.json") or {
            "names": [], "version": "", "interruptions": 0, "seconds": 0.0, "waits_for": "", "asked_before": 0,
        }  # fmt: skip

    def note(self, what: str, name: str, **facts: Any) -> None:
        """Log a request. A single write keeps the lines of several processes apart."""
        entry = {"what": what, "name": name, "at": time.time(), "pid": os.getpid(), **facts}
        with (self.directory / "log").open("ab", buffering=0) as log:
            log.write(json.dumps(entry).encode() + b"\n")

    def is_signalled(self, name: str) -> bool:
        return not name or (self.directory / "signals" / name).exists()

    def _file(self, name: str) -> Path:
        return self.directory / "documents" / f"{quote(name, safe='')}.json"

    def _read(self, file: Path) -> dict[str, Any] | None:
        try:
            script: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        return script

    def _write(self, file: Path, script: Mapping[str, Any]) -> None:
        # Replace the file atomically, because another process may be reading it.
        new = file.with_suffix(f".{os.getpid()}.new")
        new.write_text(json.dumps(script))
        new.rename(file)


class ScriptedConnector:
    """The world as one job reads it."""

    max_depth: Final = None

    def __init__(self, world: World) -> None:
        self._world = world

    def interval_of(self, identifier: str) -> float | None:
        return None

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        name = name_of(document.identifier)
        await pace.before_request()
        activity.record_request()
        began = time.monotonic()
        script = self._world.read(name)
        before = self._world.asked(name)
        self._world.note("process", name, job_configuration=activity.configuration, failures=document.failures)
        if script is None:
            self._record(activity, began, "GONE")
            activity.delete(code="GONE")
            return
        if script["kills"]:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(script["seconds"])
        while not self._world.is_signalled(script["waits_for"]):  # noqa: ASYNC110 (another process signals)
            await asyncio.sleep(_INTERVAL)
        if script["bounds"]:
            activity.set_schedule_bounds(ScheduleBounds(**script["bounds"]))
        if script["originated_at"]:
            activity.set_origination(dt.datetime.fromisoformat(script["originated_at"]))
        interruptions = script["interruptions"]
        if interruptions < 0 or before - script["asked_before"] < interruptions:
            self._record(activity, began, "INTERRUPTED")
            limit = RetryLimit(**script["limit"]) if script["limit"] else None
            activity.retry_later(code="INTERRUPTED", after=script["retry_after"], limit=limit)
        elif script.get("redirects_to"):
            self._record(activity, began, "REDIRECT")
            self._redirect(url_of(script["redirects_to"]), activity)
        elif script["fails"]:
            self._record(activity, began, script["fails"])
            activity.failed(code=script["fails"])
        else:
            self._record(activity, began, "OK")
            self._end(name, script, document, activity)

    def _record(self, activity: Activity, began: float, code: str) -> None:
        activity.record("fetch", began=began, seconds=time.monotonic() - began, result_code=code)

    def _redirect(self, url: str, activity: Activity) -> None:
        activity.reference(identifier=url, hash=hash_of(url), bin=bin_of(url), redirect=True, link_type="redirect")
        activity.no_document(code="REDIRECT")

    def _end(self, name: str, script: dict[str, Any], document: Document, activity: Activity) -> None:
        for other, link_type in script["links"]:
            url = url_of(other)
            activity.reference(
                identifier=url,
                hash=hash_of(url),
                bin=bin_of(url),
                link_type=link_type,
                carry=script["carry"].get(other),
            )
        if script["text"] is None:
            activity.no_document(code="NO_TEXT")
            return
        carried = json.dumps({key: list(values) for key, values in (document.carried or {}).items()}, sort_keys=True)
        access = Access.from_json(script["access"])
        version = activity.version_of(f"{script['version']}{carried if document.carried else ''}{access.text}")
        if not activity.needs_indexing(version):
            activity.unchanged(code="OK_UNCHANGED", read=True)
            return
        content = Content(
            url=document.identifier,
            title=name,
            description=carried if document.carried else "",
            text=script["text"],
            content_type="text/plain",
            language="",
            access=access,
            metadata={"name": (name, name.upper())},
        )
        for path, text in script["parts"].items():
            activity.parts.add(path, text, title=path)
        for path in script["retains"]:
            activity.parts.retain(path)
        if script["retains_others"]:
            activity.parts.retain_others()
        for path in script["removes"]:
            activity.parts.remove(path)
        activity.ingest(content, code="OK", version=version, validators="")


class ScriptedRules:
    """The rules of a job that excludes some documents by their names. In its links, names lose their ends."""

    max_depth: Final = None

    def __init__(self, excluded: list[str], separator: str = "") -> None:
        self._excluded = frozenset(excluded)
        self._separator = separator

    def why_not(self, identifier: str) -> str | None:
        name = name_of(identifier)
        if self.link_to(identifier) != identifier:
            return "links lose the end of its name"
        return f"the job excludes {name}" if name in self._excluded else None

    def link_to(self, identifier: str) -> str:
        return url_of(name_of(identifier).partition(self._separator)[0]) if self._separator else identifier


class SelectiveConnector(ScriptedConnector):
    """The world as a job with rules reads it."""

    def __init__(self, world: World, rules: ScriptedRules) -> None:
        super().__init__(world)
        self._rules = rules

    def admits(self, identifier: str) -> bool:
        return self._rules.why_not(identifier) is None

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        if self.admits(document.identifier):
            await super().process(document, activity, pace)
        else:
            activity.refuse(code="OUT_OF_SCOPE")

    def _redirect(self, url: str, activity: Activity) -> None:
        url = self._rules.link_to(url)
        if self.admits(url):
            super()._redirect(url, activity)
        else:
            activity.note_rejected([url])
            activity.no_document(code="OUT_OF_SCOPE")

    def _end(self, name: str, script: dict[str, Any], document: Document, activity: Activity) -> None:
        named = [(name_of(self._rules.link_to(url_of(link[0]))), link[1]) for link in script["links"]]
        links = [link for link in named if self.admits(url_of(link[0]))]
        activity.note_rejected([url_of(link[0]) for link in named if link not in links])
        super()._end(name, {**script, "links": links}, document, activity)


class ScriptedRuntime(Runtime):
    def open(self, source: SourceSettings) -> ScriptedConnector:
        world = World(Path(source.configuration["world"]))
        excluded, separator = source.specification.get("excludes", []), source.specification.get("separator", "")
        has_rules = excluded or separator
        return SelectiveConnector(world, ScriptedRules(excluded, separator)) if has_rules else ScriptedConnector(world)


class ScriptedKind:
    link_types: Final = ("link", "peer", "child")
    bins: Final = BinKind(namespace="scripted", asks_first=False, requests=8, gap=0.0)
    configuration: Final = Schema(
        (Field(name="world", kind=FieldKind.TEXT, label="World", help="A directory.", is_required=True),)
    )
    # The edition affects only the specification itself.
    specification: Final = Schema(
        (
            Field(name="edition", kind=FieldKind.TEXT, label="Edition"),
            Field(name="excludes", kind=FieldKind.LINES, label="Excluded documents"),
            Field(name="separator", kind=FieldKind.TEXT, label="Separator"),
        )
    )

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = connector_of(model)
        self.label = f"Scripted ({model})"

    def canonical(self, typed: str) -> str:
        return url_of(name_of(typed))

    def check(self, source: SourceSettings) -> Checked:
        problems: dict[str, list[str]] = {}
        for seed in source.seeds:
            try:
                self.canonical(seed)
            except BadIdentifier as error:
                problems.setdefault("seeds", []).append(str(error))
        for field, schema, values in (
            ("configuration", self.configuration, source.configuration),
            ("specification", self.specification, source.specification),
        ):
            try:
                schema.read(values)
            except BadSpecification as error:
                problems.setdefault(field, []).append(str(error))
        return Checked(problems)

    def status(self, configuration: Mapping[str, Any]) -> str:
        world = Path(configuration["world"])
        return "" if world.is_dir() else f"{world} is not a directory."

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        world = World(Path(source.configuration["world"]))
        script = world.read_seeding()
        before = len(world.seedings())
        world.note("seed", "", last_version=last_version)
        time.sleep(script["seconds"])
        while not world.is_signalled(script["waits_for"]):
            time.sleep(_INTERVAL)
        if script["interruptions"] < 0 or before - script["asked_before"] < script["interruptions"]:
            limit = RetryLimit(**script["limit"]) if script["limit"] else None
            raise SeedingFailed("The world is not to be seeded now.", retry_after=script["retry_after"], limit=limit)
        for url in (*source.seeds, *map(url_of, script["names"])):
            seeding.add(self.canonical(url), bin=bin_of(url))
        return str(script["version"])

    def rules(self, source: SourceSettings) -> ScriptedRules:
        read = self.specification.read(source.specification)
        return ScriptedRules(read.get("excludes", []), read.get("separator", ""))

    def runtime(self) -> ScriptedRuntime:
        return ScriptedRuntime()


ALL: Final = ScriptedKind(Model.ALL)
ADD: Final = ScriptedKind(Model.ADD)
ADD_CHANGE: Final = ScriptedKind(Model.ADD_CHANGE)
ADD_CHANGE_DELETE: Final = ScriptedKind(Model.ADD_CHANGE_DELETE)
CHAINED_ADD: Final = ScriptedKind(Model.CHAINED_ADD)
CHAINED_ADD_CHANGE: Final = ScriptedKind(Model.CHAINED_ADD_CHANGE)
CHAINED_ADD_CHANGE_DELETE: Final = ScriptedKind(Model.CHAINED_ADD_CHANGE_DELETE)
PARTIAL: Final = ScriptedKind(Model.PARTIAL)

# Value of the setting CRAWLCTL_CONNECTORS that installs all scriptable connectors.
CONNECTORS: Final = tuple(f"tests.support.scripted:{model.name}" for model in Model)
