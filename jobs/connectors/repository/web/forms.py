"""The forms of an HTML page: their targets, and the values that a browser would send."""

from dataclasses import dataclass

from turbohtml import Element, parse

# Fields that a browser sends only if they are selected.
_CHOSEN = frozenset({"checkbox", "radio"})
_FIELDS = ("input", "textarea", "select", "button")
_NEVER_SENT = frozenset({"button", "reset", "file", "image"})


@dataclass(frozen=True, slots=True)
class Form:
    """
    A form. `action` is its target as written, "" for the page itself. `values` are those of the page, before any input.
    """

    action: str
    is_posted: bool
    values: dict[str, str]


def forms_of(html: str) -> list[Form]:
    """Return the forms of a page, in the order of the page."""
    return [_form_of(node) for node in parse(html, positions=False).iter_elements("form")]


def _form_of(node: Element) -> Form:
    values: dict[str, str] = {}
    submits = 0
    for field in node.iter_elements(_FIELDS):
        name, kind = field.attr("name"), (field.attr("type") or "").lower()
        if field.tag == "button" and kind in {"", "submit"}:
            kind = "submit"
        if kind == "submit":
            # Only the first submit button is sent, as a browser does on Enter.
            submits += 1
        is_left_out = kind in _NEVER_SENT or (kind in _CHOSEN and field.attr("checked") is None)
        is_left_out = is_left_out or field.attr("disabled") is not None
        if not name or is_left_out or (kind == "submit" and submits > 1):
            continue
        values[name] = _value_of(field, "on" if kind in _CHOSEN else "")
    return Form(
        action=node.attr("action") or "",
        is_posted=(node.attr("method") or "").lower() == "post",
        values=values,
    )


def _value_of(field: Element, usual: str) -> str:
    if field.tag == "textarea":
        return field.text
    if field.tag == "select":
        options = list(field.iter_elements("option"))
        chosen = next(
            (option for option in options if option.attr("selected") is not None), options[0] if options else None
        )
        if chosen is None:
            return ""
        value = chosen.attr("value")
        return chosen.text if value is None else value
    value = field.attr("value")
    return usual if value is None else value
