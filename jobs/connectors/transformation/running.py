"""
The execution of a pipeline: a document goes through the tree of stages, and each output gets its result.

The version of a document in an output is made of the descriptions of the stages on its path and of the result. So after
a change of one stage, only outputs behind it are written, and only documents whose result or path has changed.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Protocol, cast

from jobs.connectors.metadata import bounded, pairs_of
from jobs.connectors.repository.base import MOST_PARTS, NO_PARTS, Content, Delivery, Part, Parts, part_address
from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import (
    EXTRACTION_FAILED,
    AsyncTransformation,
    Candidate,
    Item,
    Refused,
    Runs,
    Transformation,
    Unavailable,
)
from jobs.connectors.transformation.pipeline import SOURCE, PipelineWanted

logger = logging.getLogger(__name__)

NOT_TEXT: Final = "NOT_TEXT"
# Size of the text (characters), or of the body (bytes), from which a document is processed in a thread.
_LARGE: Final = 256 * 1024
# Longest stored reason (characters).
_LONGEST_REASON: Final = 1_000


class Pool(Protocol):
    """Executes stages in child processes, whose time and memory are limited."""

    async def transform(self, kind: str, given: str, item: Item) -> Sequence[Item] | Refused:
        """
        Transform an item by a stage of this kind, with its settings as JSON.

        Raises:
            Unavailable: no child can start.
            Exception: the child failed with this item. The message is a sentence for people.
        """


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    kind: str
    given: str
    input: str
    runs_in: Runs
    transformation: Transformation


@dataclass(frozen=True, slots=True)
class _Stopped:
    """
    The reason why a stage passed nothing on. `failed` is True if the stage failed, which says nothing about the
    document.
    """

    stage: str
    code: str
    reason: str
    failed: bool = False


# The result of the source or of a stage: its items, or the reason why it stopped.
_Passed = Sequence[Item] | _Stopped


class Pipeline:
    """
    The opened stages of one job with at least one stage, for these outputs.

    Raises:
        UnknownKind: a kind is not installed.
        BadSpecification: the settings of a stage are no longer valid.
    """

    def __init__(self, wanted: PipelineWanted, *, outputs: Iterable[int]) -> None:
        self._ends = {output: wanted.input_of(output) for output in outputs}
        paths = {output: wanted.path_to(output) for output in self._ends}
        needed = {stage.name for path in paths.values() for stage in path}
        self._stages = [
            _Stage(
                stage.name,
                stage.kind,
                json.dumps(stage.settings),
                stage.input,
                registry.find(stage.kind).runs_in,
                registry.open_stage(stage.kind, stage.settings),
            )
            for stage in wanted.stages
            if stage.name in needed
        ]
        opened = {stage.name: stage for stage in self._stages}
        self._digests = {
            output: _digest_of([(stage.kind, opened[stage.name].transformation.description) for stage in path])
            for output, path in paths.items()
        }

    def reads(self, candidate: Candidate) -> bool:
        """True if a stage makes a text of this document for an output, and none before it refuses the document."""
        # For each stage that passes the document on: True if this stage or an earlier one reads its bytes.
        state = {SOURCE: False}
        for stage in self._stages:
            if stage.input in state and stage.transformation.why_not(candidate) is None:
                state[stage.name] = state[stage.input] or stage.transformation.reads(candidate)
        return any(state.get(end, False) for end in self._ends.values())

    async def run(
        self, items: Sequence[Item], content: Content, *, pool: Pool, parts: Parts = NO_PARTS
    ) -> Mapping[int, Delivery]:
        """
        Return the result of a document for each output. `items` are the document, and behind it the parts that its
        source gives.

        Facts of the `content` that an item does not have stay as they are. `parts` says which parts outputs keep and
        remove.

        Raises:
            Unavailable: a stage needs something that cannot answer now.
        """
        passed: dict[str, _Passed] = {SOURCE: items}
        size = sum(len(item.text) + len(item.body or b"") for item in items)
        for runs_in, stages in _runs_of(self._stages):
            if runs_in is Runs.IN_THREAD:
                if size > _LARGE:
                    await asyncio.to_thread(_run_here, stages, passed)
                else:
                    _run_here(stages, passed)
            else:
                for stage in stages:
                    passed[stage.name] = await _run_elsewhere(stage, passed[stage.input], pool)
        return {output: self._deliver(output, passed[end], content, parts) for output, end in self._ends.items()}

    def _deliver(self, output: int, passed: _Passed, content: Content, parts: Parts) -> Delivery:
        if not isinstance(passed, _Stopped):
            document, *components = passed
            made_parts = [part for part in components if part.component and (part.text or part.body is None)]
            if (
                not (document.text or made_parts or parts)
                and document.body is not None
                and not is_textual(document.content_type)
            ):
                reason = f"No stage reads a text from {document.content_type or 'a document without a type'}."
                passed = _Stopped("", NOT_TEXT, reason)
            else:
                made, digest = _content_of(document, content), self._digests[output]
                return Delivery(
                    content=made,
                    version=f"{digest}:{made.fingerprint}",
                    parts=_parts_of(made_parts, content, digest, parts) if made_parts else parts,
                    reason=_note_of(passed),
                )
        return Delivery(
            stage=passed.stage, code=passed.code, reason=passed.reason[:_LONGEST_REASON], failed=passed.failed
        )


def is_textual(content_type: str) -> bool:
    """True if sources extract the text of documents of this type themselves, without a stage."""
    return content_type.startswith("text/") or content_type == "application/xhtml+xml" or not content_type


def _digest_of(path: Sequence[tuple[str, str]]) -> str:
    return blake2b(json.dumps(path).encode(errors="replace"), digest_size=8).hexdigest()


def _runs_of(stages: Sequence[_Stage]) -> list[tuple[Runs, list[_Stage]]]:
    """Return the stages in their order, grouped: adjacent stages that run in the same place form one group."""
    groups: list[tuple[Runs, list[_Stage]]] = []
    for stage in stages:
        if not groups or groups[-1][0] is not stage.runs_in:
            groups.append((stage.runs_in, []))
        groups[-1][1].append(stage)
    return groups


def _run_here(stages: Sequence[_Stage], passed: dict[str, _Passed]) -> None:
    for stage in stages:
        before = passed[stage.input]
        if isinstance(before, _Stopped):
            passed[stage.name] = before
            continue
        try:
            passed[stage.name] = _joined(stage, [stage.transformation.transform(item) for item in before])
        except Unavailable:
            raise
        except Exception as error:
            logger.exception("defect of the stage %s", stage.name)
            reason = f"The stage {stage.name} failed: {type(error).__name__}: {error}"
            passed[stage.name] = _Stopped(stage.name, EXTRACTION_FAILED, reason, failed=True)


async def _run_elsewhere(stage: _Stage, before: _Passed, pool: Pool) -> _Passed:
    """Run a stage in a child process, or in the loop."""
    if isinstance(before, _Stopped):
        return before
    results: list[Sequence[Item] | Refused] = []
    try:
        for item in before:
            if stage.runs_in is Runs.IN_PROCESS:
                results.append(await pool.transform(stage.kind, stage.given, item))
            else:
                results.append(await cast(AsyncTransformation, stage.transformation).transform_async(item))
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 (a failing file must not end the worker, however it fails)
        logger.warning("the stage %s failed: %s", stage.name, error)
        return _Stopped(stage.name, EXTRACTION_FAILED, f"The stage {stage.name} failed: {error}", failed=True)
    return _joined(stage, results)


def _note_of(items: Sequence[Item]) -> str:
    """Return the notes of these items as one text. The notes tell what the texts lack, and each note occurs once."""
    return " ".join(dict.fromkeys(item.note for item in items if item.note))[:_LONGEST_REASON]


def _joined(stage: _Stage, results: Sequence[Sequence[Item] | Refused]) -> _Passed:
    """
    Return the items of all results. If the stage refuses the document, that is the result. A refused component is left
    out.
    """
    first = results[0]
    if isinstance(first, Refused):
        return _Stopped(stage.name, first.code, first.reason)
    return [item for result in results if not isinstance(result, Refused) for item in result]


def _content_of(item: Item, content: Content) -> Content:
    """
    Return the content of a document or of a part, made from an item. Facts that an item does not have, such as the
    access, are those of the earlier content.
    """
    return replace(
        content,
        title=item.title,
        description=item.description,
        text=item.text,
        content_type=item.content_type,
        language=item.language,
        metadata=bounded(pairs_of(item.metadata)),
    )


def _parts_of(items: Sequence[Item], content: Content, digest: str, kept: Parts) -> Parts:
    """
    Return the parts for an output, each with its version, and the retained parts.

    A part that two stages name occurs once. A part that a stage makes replaces one of this name that outputs would
    keep.
    """
    parts: dict[str, Part] = {}
    for item in items:
        if item.component in parts:
            continue
        if len(parts) == MOST_PARTS:
            logger.warning("%s has more than %d parts; the others are left out", content.url, MOST_PARTS)
            break
        made = replace(_content_of(item, content), url=part_address(content.url, item.component))
        parts[item.component] = Part(item.component, made, f"{digest}:{made.fingerprint}")
    retained = [part for part in kept.given if part.id not in parts]
    return replace(kept, given=[*parts.values(), *retained])
