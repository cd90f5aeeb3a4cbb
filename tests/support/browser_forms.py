"""Reads a form from a page, with the values that a browser without scripts would send."""

from html.parser import HTMLParser


class _Forms(HTMLParser):
    def __init__(self):
        super().__init__()
        self.forms = []
        self._select = self._area = None

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        name = facts.get("name")
        match tag:
            case "form":
                self.forms.append({})
            case "input" if name and self.forms and "disabled" not in facts:
                kind = facts.get("type", "text")
                if kind not in {"checkbox", "radio", "submit", "file"}:
                    self._add(name, facts.get("value") or "")
                elif "checked" in facts:
                    self._add(name, facts.get("value", "on"))
            case "select":
                self._select = name
            case "option" if self._select and "selected" in facts:
                self._add(self._select, facts.get("value", ""))
            case "textarea":
                self._area = name
                self._add(name, "")

    def handle_endtag(self, tag):
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None

    def handle_data(self, data):
        if self._area:
            # A browser skips the first line break.
            self.forms[-1][self._area] = [data.removeprefix("\n").removeprefix("\r\n")]

    def _add(self, name, value):
        if self.forms:
            self.forms[-1].setdefault(name, []).append(value)


def opened(client, address, *, field="seen"):
    """Return the fields of the form that has this field: a list of values by the name of the field."""
    response = client.get(address)
    assert response.status_code == 200, response
    return fields_of(response, field=field)


def fields_of(response, *, field):
    """Return the fields of the form that has this field, from the answer to a request."""
    parser = _Forms()
    parser.feed(response.content.decode())
    (found,) = [form for form in parser.forms if field in form]
    # A page has hidden patterns, from which a script makes further rows. They are not fields of the form.
    return {name: values for name, values in found.items() if "__prefix__" not in name}
