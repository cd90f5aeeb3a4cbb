"""A select field for forms with very many select fields."""

from typing import Any

from django.forms.utils import flatatt
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget


class PlainSelect(UnfoldAdminSelectWidget):  # type: ignore[misc]
    """
    Looks like other select fields, but renders its options without templates. A template for each option would take
    longer than the rest of the form.
    """

    def render(
        self, name: str, value: object, attrs: dict[str, Any] | None = None, renderer: object = None
    ) -> SafeString:
        chosen = "" if value is None else str(value)
        options = format_html_join("", "{}", ((_option(*choice, chosen=chosen),) for choice in self.choices))
        shown = flatatt({**self.build_attrs(self.attrs, attrs), "name": name})
        return render_to_string("admin/jobs/plain_select.html", {"attributes": shown, "options": options})


def _option(key: object, label: object, *, chosen: str) -> SafeString:
    if isinstance(label, list):
        return format_html('<optgroup label="{}"></optgroup>', key)
    return format_html("<option{}>{}</option>", flatatt({"value": key, "selected": str(key) == chosen}), label)
