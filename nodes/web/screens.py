"""
Pages in words: the text that a template prints, and that an open page receives.

A screen is a record: names with a text, or with a list of records that have a `key`. A template shows a text in an
element with that name in `data-cell` (or binds it to an attribute), a list in one with `data-list`.
`static/js/screen.js` puts a newer screen in its place. Screens do not depend on the visitor: the template decides which
buttons to show, and the view checks the permission again.
"""

from collections.abc import Mapping

Record = Mapping[str, object]
