"""
The lifecycle of a document.

A document has four facts: `stage`, `indexed_before`, `rescan`, and `run_no` compared with the job's. ManifoldCF's
thirteen names are derived from these facts. The scan of the job's run decides what an older `run_no` means. In a full
scan, a done row of an older run is PURGATORY: the end of the run cleans it up unless a document has referenced it by
then. A pending row of an older run counts as absent until a document references it.
"""

import enum
from typing import Final

from jobs.lifecycle.job import Scan
from jobs.lifecycle.table import Owner, Transition, by_name


class Stage(enum.IntEnum):
    """The stage of a document. The numbers are stored in the database."""

    PENDING = 0
    ACTIVE = 1
    DONE = 2
    BEING_CLEANED = 3
    BEING_DELETED = 4
    HOPCOUNT_REMOVED = 5


class Action(enum.IntEnum):
    """The action that a worker takes when the document is due."""

    PROCESS = 0
    EXPIRE = 1
    # The document is outside the hop limits of its job. It is removed from the outputs, but its row stays.
    LEAVE = 2


# Stages in which a batch has claimed the document. No two jobs claim the same document at the same time.
CLAIMED: Final = frozenset({Stage.ACTIVE, Stage.BEING_CLEANED, Stage.BEING_DELETED})


def manifoldcf_name(
    *,
    stage: Stage,
    indexed_before: bool,
    rescan: bool,
    of_this_run: bool,
    scan: Scan,
    deleting: bool = False,
    recurs: bool = False,
) -> str:
    """
    Return ManifoldCF's name of a document's state; '' for a row that counts as absent until it is referenced.

    A document of a continuous job `recurs`: it is never complete, but waits for its next time.
    """
    seen = "PURGATORY" if indexed_before else ""
    if deleting and stage in {Stage.PENDING, Stage.DONE}:
        return "ELIGIBLEFORDELETE"
    match stage:
        case Stage.PENDING:
            return "" if not of_this_run and scan == Scan.FULL else f"PENDING{seen}"
        case Stage.ACTIVE:
            return f"ACTIVE{'NEEDRESCAN' if rescan else ''}{seen}"
        case Stage.DONE if of_this_run:
            return "PENDINGPURGATORY" if recurs else "COMPLETE"
        case Stage.DONE:
            return {Scan.FULL: "PURGATORY", Scan.RECHECK: "PENDINGPURGATORY", Scan.CHANGES: "UNCHANGED"}[scan]
        case Stage.BEING_CLEANED:
            return "BEINGCLEANED"
        case Stage.BEING_DELETED:
            return "BEINGDELETED"
        case Stage.HOPCOUNT_REMOVED:
            return "HOPCOUNTREMOVED"


TRANSITIONS: Final = by_name(
    (
        Transition(
            "discover",
            frozenset({"absent"}),
            {"stage": Stage.PENDING},
            Owner.WORKER,
            guard="a seed or a processed document links to it, in scope",
        ),
        Transition(
            "revive",
            frozenset({"pending, older run", "done, older run"}),
            {"stage": Stage.PENDING, "run_no": "the job's"},
            Owner.WORKER,
            guard="a seed or a document of this run links to it",
        ),
        Transition(
            "come nearer",
            frozenset({"done"}),
            {"stage": Stage.PENDING},
            Owner.WORKER,
            guard="the job has a depth limit, and a shorter path was found",
        ),
        Transition(
            "discover outside the hop limits",
            frozenset({"absent"}),
            {"stage": Stage.HOPCOUNT_REMOVED},
            Owner.WORKER,
            guard="a processed document links to it, outside the job's hop limits",
        ),
        Transition(
            "leave the hop limits",
            frozenset({"pending", "done", "pending, older run", "done, older run"}),
            {"stage": Stage.HOPCOUNT_REMOVED},
            Owner.WORKER,
            guard="no remaining path to it is within the job's hop limits",
        ),
        Transition(
            "end outside the hop limits",
            frozenset({"active"}),
            {"stage": Stage.HOPCOUNT_REMOVED, "indexed_before": False},
            Owner.WORKER,
            guard="it left the job's hop limits while it was processed",
        ),
        Transition(
            "return within the hop limits",
            frozenset({"hopcount removed"}),
            {"stage": Stage.PENDING, "run_no": "the job's"},
            Owner.WORKER,
            guard="a path within the job's hop limits was found",
        ),
        Transition(
            "get other carry-down values",
            frozenset({"done"}),
            {"stage": Stage.PENDING},
            Owner.WORKER,
            guard="the data that its parents pass to it has changed",
        ),
        Transition(
            "mark for rescan",
            frozenset({"active"}),
            {"rescan": True},
            Owner.WORKER,
            guard="the job has a depth limit and a shorter path was found, or the data that its parents pass to it has changed",
        ),
        Transition(
            "stuff",
            frozenset({"pending"}),
            {"stage": Stage.ACTIVE},
            Owner.GROUP_OWNER,
            guard="it is due, its host has a free place, the job runs, and no other job has it claimed",
        ),
        Transition(
            "complete",
            frozenset({"active"}),
            {"stage": Stage.DONE, "run_no": "the job's"},
            Owner.WORKER,
            guard="the claim is unchanged since it was taken, and no rescan was requested",
        ),
        Transition(
            "process again",
            frozenset({"active, to be rescanned"}),
            {"stage": Stage.PENDING, "rescan": False},
            Owner.WORKER,
            guard="the claim is unchanged since it was taken",
        ),
        Transition(
            "retry",
            frozenset({"active"}),
            {"stage": Stage.PENDING},
            Owner.WORKER,
            guard="its failure is temporary, and it has attempts left",
        ),
        Transition(
            "look again",
            frozenset({"done"}),
            {"stage": Stage.PENDING},
            Owner.GROUP_OWNER,
            guard="its job is continuous, and it is due",
        ),
        Transition(
            "expire",
            frozenset({"done", "pending"}),
            {"stage": Stage.ACTIVE},
            Owner.GROUP_OWNER,
            guard="its job is continuous, and it has expired",
        ),
        Transition(
            "drop expired",
            frozenset({"active"}),
            {"stage": None},
            Owner.WORKER,
            guard="it has expired, and no output holds it",
        ),
        Transition(
            "recheck",
            frozenset({"pending, older run", "done, older run"}),
            {"stage": Stage.PENDING, "run_no": "the job's"},
            Owner.GROUP_OWNER,
            guard="the run rechecks known documents, or, in a minimal run, pending ones",
        ),
        Transition(
            "release",
            frozenset({"active"}),
            {"stage": Stage.PENDING},
            Owner.WORKER,
            guard="its batch was returned or withdrawn before the document was started",
        ),
        Transition(
            "lose",
            frozenset({"active"}),
            {"stage": Stage.PENDING, "indexed_before": True},
            Owner.MAIN,
            guard="its worker failed",
        ),
        Transition(
            "give up",
            frozenset({"active"}),
            {"stage": Stage.DONE},
            Owner.MAIN,
            guard="its worker failed, and it was lost alone three times",
        ),
        Transition(
            "clean",
            frozenset({"pending, older run", "done, older run"}),
            {"stage": Stage.BEING_CLEANED},
            Owner.GROUP_OWNER,
            guard="the run is finished, and no document links to it",
        ),
        Transition(
            "take out",
            frozenset({"hopcount removed"}),
            {"stage": Stage.BEING_CLEANED},
            Owner.GROUP_OWNER,
            guard="an output may hold it, and the run is finished or never ends",
        ),
        Transition(
            "leave outputs",
            frozenset({"being cleaned"}),
            {"stage": Stage.HOPCOUNT_REMOVED, "indexed_before": False},
            Owner.WORKER,
            guard="it is outside the job's hop limits, and no output holds it",
        ),
        Transition(
            "want again",
            frozenset({"being cleaned"}),
            {"rescan": True, "run_no": "the job's"},
            Owner.WORKER,
            guard="a document of this run links to it",
        ),
        Transition(
            "give up cleaning",
            frozenset({"being cleaned, wanted again"}),
            {"stage": Stage.PENDING, "rescan": False},
            Owner.WORKER,
            guard="the claim is unchanged since it was taken",
        ),
        Transition(
            "drop cleaned",
            frozenset({"being cleaned"}),
            {"stage": None},
            Owner.WORKER,
            guard="no output holds it",
        ),
        Transition(
            "return cleaned",
            frozenset({"being cleaned"}),
            {"stage": Stage.DONE},
            Owner.MAIN,
            guard="its worker failed, or an output refused",
        ),
        Transition(
            "delete",
            frozenset({"pending", "done", "pending, older run", "done, older run"}),
            {"stage": Stage.BEING_DELETED},
            Owner.GROUP_OWNER,
            guard="its job is being deleted",
        ),
        Transition(
            "drop deleted",
            frozenset({"being deleted"}),
            {"stage": None},
            Owner.WORKER,
            guard="no output holds it",
        ),
        Transition(
            "return deleted",
            frozenset({"being deleted"}),
            {"stage": Stage.DONE},
            Owner.MAIN,
            guard="its worker failed, or an output refused",
        ),
    )
)
