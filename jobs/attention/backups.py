"""
Lines about old backups, about a write-ahead log that is old or has a gap, and about drills that are old or failed.
"""

import datetime as dt

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, Severity
from jobs.queries.backups import (
    LogState,
    age_of_last_backup,
    age_of_log,
    file_of_last_backup,
    file_of_log_state,
    is_log_copied,
    last_drill,
)
from nodes.web import formats

_NEVER = float("inf")


def old_backup(now: dt.datetime) -> list[AttentionLine]:
    """
    Return a line for each of these: an old backup, an old write-ahead log, a gap in this log, an old or failed drill.
    """
    sentences = {
        "": _sentence_of_backup(),
        "log": _sentence_of_log(now),
        "gap": _sentence_of_gap(now),
        "drill": _sentence_of_drill(now),
    }
    return [_line(key, sentence) for key, sentence in sentences.items() if sentence]


def _sentence_of_backup() -> str:
    """Return a sentence if this machine makes backups and the last one is older than the setting; '' otherwise."""
    most, age = settings.CRAWLCTL_BACKUP_MAX_AGE.total_seconds(), age_of_last_backup()
    if age is None or not most or age <= most:
        return ""
    if age == _NEVER:
        sentence = _("No backup: %(file)s does not exist. Make one: crawlctl backup --to PLACE.")
        return sentence % {"file": file_of_last_backup()}
    sentence = _("The last backup is %(hours)s hours old (limit: %(most)s). Make one: crawlctl backup --to PLACE.")
    return sentence % {"hours": formats.number(round(age / 3600)), "most": formats.number(round(most / 3600))}


def _sentence_of_log(now: dt.datetime) -> str:
    """
    Return a sentence if the write-ahead log is stored, and its stored part is older than the setting; '' otherwise.
    """
    most, age = settings.CRAWLCTL_BACKUP_LOG_MAX_AGE.total_seconds(), age_of_log(now=now)
    if age is None or not most or age <= most:
        return ""
    state = LogState.read(file_of_log_state()) if is_log_copied() else None
    problem = f" {state.problem}." if state and state.problem else ""
    if age == _NEVER:
        return _("Nothing of the write-ahead log is stored yet.") + problem
    sentence = _("The newest part of the stored write-ahead log is %(minutes)s minutes old (limit: %(most)s).")
    return sentence % {"minutes": formats.number(round(age / 60)), "most": formats.number(round(most / 60))} + problem


def _sentence_of_gap(now: dt.datetime) -> str:
    """Return a sentence if the stored write-ahead log has a gap after the last backup; '' otherwise."""
    state = LogState.read(file_of_log_state()) if is_log_copied() else None
    if state is None or not state.gap_at:
        return ""
    age = age_of_last_backup()
    gap_at = dt.datetime.fromisoformat(state.gap_at)
    if age is not None and age < (now - gap_at).total_seconds():
        return ""
    sentence = _("The stored write-ahead log has a gap at %(at)s UTC. Make a new backup: crawlctl backup.")
    return sentence % {"at": f"{gap_at.astimezone(dt.UTC):%Y-%m-%d %H:%M}"}


def _sentence_of_drill(now: dt.datetime) -> str:
    """
    Return a sentence if the last drill of a restore failed or is older than the setting, or if there was none; ''
    otherwise.
    """
    most = settings.CRAWLCTL_DRILL_MAX_AGE
    # Drills restore the embedded server only.
    if not settings.CRAWLCTL_BACKUP_STORE or not most or settings.CRAWLCTL_DATABASE_URL:
        return ""
    drill = last_drill()
    if drill is None:
        return _("No drill of a restore was run yet. Run one: crawlctl drill restore.")
    at, is_good, reason = drill
    if not is_good:
        return _("The last drill of a restore failed: %(reason)s") % {"reason": reason}
    if now - at <= most:
        return ""
    sentence = _("The last drill of a restore is %(days)d days old (limit: %(most)d). Run one: crawlctl drill restore.")
    return sentence % {"days": (now - at).days, "most": most.days}


def _line(key: str, sentence: str) -> AttentionLine:
    return AttentionLine(
        kind="backup_old",
        key=key,
        subject=_("backup"),
        sentence=sentence,
        since=None,
        link=reverse("documentation", args=["docs/backups.html"]),
        severity=Severity.WARNING,
    )
