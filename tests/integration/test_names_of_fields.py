"""
Proves that each field, button and link of every page has a name, which screen readers need.

`tests/acceptance/test_browser.py` checks in a browser the names that `static/js/set_up.js` gives.
"""

import turbohtml

from tests.support.addresses import addresses
from tests.support.api import client_of
from tests.support.crowd import bring_in
from tests.support.filled_queue import FilledQueue, Shape

# Addresses that show no page of crawlctl, or that only programs read.
_OTHERS = frozenset({"api/", "metrics", "manual/", "admin/autocomplete/", "admin/login/", "admin/logout/", "logout/"})
_FIELDS = "input:not([type=hidden], [type=submit], .hidden, #searchbar), select, textarea"
# Selectors of elements. A link without content is not displayed, so it needs no name.
_MENU = r"[x-on\:click='showActions = !showActions']"
_PRESSED = f"button:not(#searchbar-submit, [hidden]), a[href]:not([data-cell]:empty, {_MENU}), input[type=submit]"
# Element whose text is the name of an icon in a font, which is no name for a screen reader.
_PICTURE = ".material-symbols-outlined"


def test_every_field_button_and_link_has_a_name(connection):
    queue = FilledQueue(connection, documents=2_000, shape=Shape(bins=20))
    bring_in(connection, many=8)
    administrator = client_of("administrator")
    looked_at, unnamed = 0, set()

    for path in addresses(queue.connection, but=_OTHERS):
        answer = administrator.get(path)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            looked_at += 1
            page = turbohtml.parse(answer.content.decode())
            for row_to_come in page.select("template"):
                row_to_come.decompose()
            unnamed |= {
                (path, element.html[:200]) for element in page.select(_FIELDS) if not field_has_name(element, page)
            }
            unnamed |= {(path, element.html[:200]) for element in page.select(_PRESSED) if not has_words(element)}

    assert unnamed == set(), unnamed
    assert looked_at > 60


def field_has_name(field, page):
    if field.attrs.get("aria-label"):
        return True
    named_by = [f"#{key}" for key in field.attrs.get("aria-labelledby", "").split()]
    if key := field.attrs.get("id"):
        named_by.append(f'label[for="{key}"]')
    labels = [label for one in named_by for label in page.select(one)]
    return any(has_words(label) for label in labels) or field.closest("label") is not None


def has_words(element):
    if element.attrs.get("aria-label") or element.attrs.get("title") or element.attrs.get("value"):
        return True
    pictures = sum(len("".join(one.text.split())) for one in element.select(_PICTURE))
    return len("".join(element.text.split())) > pictures or any(one.attrs.get("alt") for one in element.select("img"))
