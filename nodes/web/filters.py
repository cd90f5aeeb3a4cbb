"""The base of the forms above lists."""

from collections.abc import Mapping

from django import forms


class FilterForm(forms.Form):
    """The filters of a list, as parameters of its address."""

    use_required_attribute = False
    # By field, the value with which the filter leaves no row out.
    choosing_all: Mapping[str, str] = {}

    @property
    def leaves_out(self) -> bool:
        """True if the list may leave rows out: by a filter, or because the page is not the first one."""
        given = {name: self.data.get(name, "").strip() for name in self.fields if name != "sort"}
        return any(value and value != self.choosing_all.get(name) for name, value in given.items())
