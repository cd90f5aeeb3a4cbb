"""
The notes of a move of slots: its phase, as the control partition sends it, and the reports of all partitions.

Each partition notes the move for itself, so that a new subscription, which forgets received facts, changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.facts import FactSender, own_fact, received_facts, send_fact
from jobs.partitions.moving import Move, MovePhase, Report, change_owner, leave_out, newest_move
from jobs.partitions.placement import Placement
from jobs.partitions.slots import SlotMap, read_map
from nodes.errors import Invalid, Refused

logger = logging.getLogger(__name__)

KIND: Final = "move"
KEY: Final = f"{KIND}:all"
REPORT_KIND: Final = "moved"
REPORT_KEY: Final = f"{REPORT_KIND}:all"
# Operators and the main manager change the note of the control partition.
# Locks: an advisory lock until the transaction ends.
_ALONE: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('crawlctl move of slots', 0))"


class MoveRefused(Refused):
    """A move of slots cannot begin, continue or be cancelled now. The message has the reason."""

    code = "slots_move"


def read_move(connection: psycopg.Connection[Any]) -> Move | None:
    """Return the last move as this partition noted it; None before the first one."""
    body = own_fact(connection, KEY)
    return None if body is None else Move.from_json(body)


def newest_map(connection: psycopg.Connection[Any], names: Sequence[str]) -> SlotMap:
    """
    Return the map of the last move that is done. A control partition that was restored may still apply an earlier map.
    """
    present, move = read_map(connection, names), read_move(connection)
    is_behind = move is not None and move.phase == MovePhase.DONE and move.number > present.epoch
    return move.to if move is not None and is_behind else present


def keep_move(connection: psycopg.Connection[Any], placement: Placement) -> Move | None:
    """
    Note the last move that the control partition sent, and return it.

    The others send it the move that they noted, so that a restored control partition learns a forgotten move.
    """
    noted = read_move(connection)
    received = [Move.from_json(fact.body) for fact in received_facts(connection, placement.here, kind=KIND)]
    move = newest_move(noted, received, leads=placement.is_control)
    if move is None or move == noted:
        return noted
    with connection.transaction():
        if placement.is_control:
            logger.warning(
                "a restore of the database lost move %d of slots; the move continues (%s)", move.number, move.phase
            )
            connection.execute(_ALONE)
        else:
            send_fact(connection, placement.here, placement.control, KEY, move.as_json())
        send_fact(connection, placement.here, placement.here, KEY, move.as_json())
    return move


def send_move(connection: psycopg.Connection[Any], placement: Placement, move: Move) -> bool:
    """
    If this is the control partition, send the move to the other partitions. Return True if one of these partitions has
    not received the move yet.
    """
    sender = FactSender(connection, placement.here, KIND)
    return placement.is_control and sender.send_all(placement, KEY, move.as_json())


def read_report(connection: psycopg.Connection[Any], names: Sequence[str]) -> Report:
    """Return the report of this partition about the map that it applies."""
    body = own_fact(connection, REPORT_KEY)
    report = Report(0, 0) if body is None else Report.from_json(body)
    return Report.from_json({**report.as_json(), "epoch": read_map(connection, names).epoch})


def note_report(connection: psycopg.Connection[Any], placement: Placement, report: Report) -> bool:
    """Note the report of this partition, and send it to the control partition; return True if it is new."""
    body = report.as_json()
    is_new = send_fact(connection, placement.here, placement.here, REPORT_KEY, body)
    if not placement.is_control:
        send_fact(connection, placement.here, placement.control, REPORT_KEY, body)
    return is_new


def read_reports(connection: psycopg.Connection[Any], placement: Placement) -> dict[str, Report]:
    """Return the newest reports, by partition. Only the control partition has reports of other partitions."""
    reports = {
        fact.source: Report.from_json(fact.body)
        for fact in received_facts(connection, placement.here, kind=REPORT_KIND)
    }
    return reports | {placement.here: read_report(connection, placement.names)}


def change_move(connection: psycopg.Connection[Any], placement: Placement, change: Callable[[Move], Move]) -> Move:
    """
    Apply `change` to the last move, in one transaction of the control partition; return the result.

    Raises:
        MoveRefused: there was no move, or `change` refuses it.
    """
    with connection.transaction():
        connection.execute(_ALONE)
        before = read_move(connection)
        if before is None:
            raise MoveRefused("No move of slots is in progress.")
        after = change(before)
        if after != before:
            send_fact(connection, placement.here, placement.here, KEY, after.as_json())
    return after


def plan_move(
    owners: SlotMap,
    names: Sequence[str],
    *,
    source: str,
    targets: Sequence[str],
    slots: Sequence[int] | None,
    count: int | None,
) -> list[int]:
    """
    Return the slots of `source` that a move gives to the targets: these `slots`, the last `count`, or all.

    Raises:
        Invalid: a partition is unknown, or does not have the slots.
    """
    problems: dict[str, list[str]] = {}
    known = ", ".join(names)
    for field, wanted in (("source", [source]), ("targets", targets)):
        for name in wanted:
            if name not in names:
                problems.setdefault(field, []).append(f"There is no partition {name!r}. The partitions are {known}.")
    if source in targets:
        problems.setdefault("targets", []).append(f"{source} has these slots already. Name another partition.")
    if not targets:
        problems.setdefault("targets", []).append("Name a partition that gets the slots.")
    own = owners.slots_of(source)
    if slots is not None and (foreign := sorted(set(slots) - set(own))):
        numbers = ", ".join(str(slot) for slot in foreign[:5]) + (", …" if len(foreign) > 5 else "")
        problems["slots"] = [f"{source} does not have slot {numbers}. It has {len(own)} slots."]
    if count is not None and not 1 <= count <= len(own):
        problems["count"] = [f"{source} has {len(own)} slots. Give a number from 1 to {len(own)}."]
    if not problems and not own:
        problems["source"] = [f"{source} has no slots."]
    if problems:
        raise Invalid(problems)
    if slots is not None:
        return sorted(set(slots))
    return own if count is None else own[-count:]


def request_move(
    connection: psycopg.Connection[Any], placement: Placement, *, slots: Sequence[int], targets: Sequence[str]
) -> Move:
    """
    Begin a move of slots in the control partition; return it. The main managers of all partitions carry it out.

    Raises:
        MoveRefused: another move is not over.
    """
    with connection.transaction():
        connection.execute(_ALONE)
        before = read_move(connection)
        if before is not None and not before.phase.is_over:
            raise MoveRefused(
                f"A move of slots is in progress already (move {before.number}, {before.phase}). Wait until it is done."
            )
        present = newest_map(connection, placement.names)
        number = _next_number(connection, placement, present, before)
        move = Move(change_owner(present, slots, targets, number=number))
        send_fact(connection, placement.here, placement.here, KEY, move.as_json())
    return move


def continue_without_partition(connection: psycopg.Connection[Any], placement: Placement, name: str) -> Move:
    """
    Let a move that copies documents continue without a lost partition. Return the move that follows.

    Raises:
        MoveRefused: no documents are copied.
    """
    present = read_map(connection, placement.names)

    def after(move: Move) -> Move:
        if move.phase != MovePhase.COPYING:
            raise MoveRefused(f"Move {move.number} is not copying documents.")
        return leave_out(move, name, placement.names, number=_next_number(connection, placement, present, move))

    return change_move(connection, placement, after)


def _next_number(
    connection: psycopg.Connection[Any], placement: Placement, present: SlotMap, before: Move | None
) -> int:
    """Return a number above the numbers of all moves that any partition knows."""
    reports = read_reports(connection, placement).values()
    numbers = [number for report in reports for number in (report.number, report.epoch)]
    return max(present.epoch, before.number if before else 0, *numbers) + 1


def cancel_move(connection: psycopg.Connection[Any], placement: Placement) -> Move:
    """
    Cancel a move while it waits for jobs; return it. All jobs continue with the old map.

    Raises:
        MoveRefused: no move is in progress, or documents are copied already.
    """

    def cancelled(move: Move) -> Move:
        if move.phase != MovePhase.HOLDING:
            state = "is over" if move.phase.is_over else "copies documents, and cannot be cancelled any more"
            raise MoveRefused(f"Move {move.number} {state}.")
        return Move(move.to, MovePhase.CANCELLED)

    return change_move(connection, placement, cancelled)


def is_on(connection: psycopg.Connection[Any]) -> bool:
    """True if slots are moving, as far as this partition knows."""
    move = read_move(connection)
    return move is not None and not move.phase.is_over
