"""The forms of an HTML page: where they lead, and what a browser would send of them."""

from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from jobs.connectors.repository.web.nesting import cut_where_too_deep

# What a person has to choose, or that acts by itself, is not sent unless it is chosen already.
_CHOSEN = frozenset({"checkbox", "radio"})
_NEVER_SENT = frozenset({"button", "reset", "file", "image"})


@dataclass(frozen=True, slots=True)
class Form:
    """`action` is as written, and "" for the page itself; `values` are what it holds before anybody fills it in."""

    action: str
    is_posted: bool
    values: dict[str, str]


def forms_of(html: str) -> list[Form]:
    """The forms of a page, in its order."""
    root = LexborHTMLParser(cut_where_too_deep(html)).root
    return [] if root is None else [_form_of(node) for node in root.css("form")]


def _form_of(node: LexborNode) -> Form:
    values: dict[str, str] = {}
    submits = 0
    for field in node.css("input, textarea, select, button"):
        given = field.attributes
        name, kind = given.get("name"), (given.get("type") or "").lower()
        if field.tag == "button" and kind in {"", "submit"}:
            kind = "submit"
        if kind == "submit":
            # The one that a browser presses on Enter.
            submits += 1
        is_left_out = kind in _NEVER_SENT or (kind in _CHOSEN and "checked" not in given) or "disabled" in given
        if name is None or is_left_out or (kind == "submit" and submits > 1):
            continue
        values[name] = _value_of(field, "on" if kind in _CHOSEN else "")
    return Form(
        action=node.attributes.get("action") or "",
        is_posted=(node.attributes.get("method") or "").lower() == "post",
        values=values,
    )


def _value_of(field: LexborNode, usual: str) -> str:
    if field.tag == "textarea":
        return field.text()
    if field.tag == "select":
        options = field.css("option")
        chosen = next(
            (option for option in options if "selected" in option.attributes), options[0] if options else None
        )
        if chosen is None:
            return ""
        value = chosen.attributes.get("value")
        return chosen.text() if value is None else value
    value = field.attributes.get("value")
    return usual if value is None else value
