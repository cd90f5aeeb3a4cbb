"""
Screens: the texts of a page. A template prints them, and an open page receives newer ones.

A screen is a record: names with a text, or with a list of records that have a `key`. A template shows a text in an
element whose `data-cell` is the name of the text, or binds it to an attribute. It shows a list in an element whose
`data-list` is the name of the list. `static/js/screen.js` replaces the texts by those of a newer screen. Screens do not
depend on the visitor: the template decides which buttons to show, and the view checks the permission again.
"""

from collections.abc import Mapping

from django.utils.translation import gettext as _

from nodes.web import formats

Record = Mapping[str, object]


def bar(done: float, total: float) -> dict[str, str]:
    """Return the cells of `ui/rows/progress.html`: a bar of `done` in `total`, and no bar if the total is unknown (0)."""
    if total <= 0:
        return {"bar": "", "done_amount": "0", "total_amount": "1"}
    return {
        "bar": _("%(share)s done") % {"share": formats.share(int(done), int(total))},
        "done_amount": f"{done:g}",
        "total_amount": f"{total:g}",
    }
