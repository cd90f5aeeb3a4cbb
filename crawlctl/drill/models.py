"""The stored reports of drills."""

from typing import Any, Final

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlctl.drill.observation import last_moment

# The fault of drills that restore a backup.
RESTORE: Final = "restore"
# The moments of a report that its one-line summary shows.
_MOMENTS: Final = {
    "detected": _("failed after"),
    "took_over": _("main after"),
    "returned": _("returned after"),
    "restored": _("restored after"),
    "fetched": _("fetching after"),
}


class Drill(models.Model):
    """One drill. `report` is a `crawlctl.drill.observation.Report`, or the report of a restore."""

    at = models.DateTimeField(auto_now_add=True)
    fault = models.TextField(_("fault"))
    whom = models.TextField(_("target"))
    node = models.TextField()
    where = models.TextField(_("sandbox or cluster"))
    is_good = models.BooleanField(_("every expectation was met"))
    report = models.JSONField()

    class Meta:
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.fault} {self.whom}, {self.at:%Y-%m-%d %H:%M}"

    @property
    def recovery(self) -> float | None:
        """Return the seconds from the fault to the last expected event; None if an expected event did not happen."""
        if not self.is_good:
            return None
        if self.fault == RESTORE:
            return self.report["recovery"]  # type: ignore[no-any-return]
        return last_moment(self.report)

    @property
    def came_to(self) -> str:
        """Return, in one line, when each event happened, and which expected events did not."""
        facts = self.report
        if self.fault == RESTORE:
            return ", ".join([*_words_of_restore(facts), *facts["missing"]])
        words = [f"{name} {facts[key]:.1f} s" for key, name in _MOMENTS.items() if facts.get(key) is not None]
        return ", ".join([*words, *(f"missing: {sentence}" for sentence in facts["missing"])])


def _words_of_restore(facts: dict[str, Any]) -> list[str]:
    # Reports of earlier versions have no word about seals.
    origin = [gettext("not sealed as a whole, so nothing proves its origin")] if facts.get("is_sealed") is False else []
    if facts["recovery"] is None:
        return origin
    return [
        gettext("%(minutes).1f minutes lost") % {"minutes": facts["lost"] / 60},
        gettext("recovered in %(seconds).1f s") % {"seconds": facts["recovery"]},
        gettext("%(n)d documents would be read again") % {"n": facts["read_again"]},
        *origin,
    ]
