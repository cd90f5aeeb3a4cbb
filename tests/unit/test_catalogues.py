"""Proves that every text of the pages is marked for translation, and that each catalogue translates all texts."""

import re
import subprocess
import sys
from itertools import chain

import pytest

from crawlctl.languages import CODES, ENGLISH
from tests.support.tables import each_row
from tools.catalogues import CATALOGUES, messages, read, sources
from tools.compile_catalogues import ROOT, compile_catalogues
from tools.templates import templates, unmarked_of

PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-+#0]*\d*(?:\.\d+)?[a-zA-Z%]")
# Characters with a meaning in HTML. The apostrophe is not included, because a translation may not need it where English
# does.
MARKUP = re.compile(r"""[<>&"]""")
# Visible words that are the same in each language: names, an example of an address, a code, and the name of an icon.
SAME_EVERYWHERE = {
    "crawlctl",
    "robots.txt",
    "UTC",
    "DENIED",
    "https",
    "www.example.com",
    "page",
    "nbsp",
    "expand",
    "more",
}


@pytest.fixture(scope="module")
def texts():
    return {each.id: each for each in sources() if each.id}


def forms(text):
    return text if isinstance(text, (list, tuple)) else (text,)


def test_each_language_except_english_has_a_catalogue():
    assert {path.parents[1].name.lower().replace("_", "-") for path in CATALOGUES} == CODES - {ENGLISH}


@each_row("path", CATALOGUES)
def test_a_catalogue_translates_each_text_of_the_sources_and_no_other(path, texts):
    catalog = read(path)
    translated = {each.id for each in catalog if not each.fuzzy and all(forms(each.string))} - {""}

    untranslated, unknown = texts.keys() - translated, translated - texts.keys()

    message = f"{catalog.locale}: {len(untranslated)} texts lack a translation, {len(unknown)} have no source (make catalogues)"
    assert untranslated | unknown == set(), message
    assert catalog.obsolete == {}


def differing(path, pattern):
    """Return the translations in which a pattern finds matches that differ from those in the English text."""
    found = pattern.findall
    return [
        (each.id, form)
        for each in read(path)
        if each.id
        for form in forms(each.string)
        if sorted(found(form)) not in [sorted(found(text)) for text in forms(each.id)]
    ]


@each_row("path", CATALOGUES)
def test_a_translation_has_the_placeholders_of_its_text(path):
    assert differing(path, PLACEHOLDER) == []


@each_row("path", CATALOGUES)
def test_a_translation_adds_no_markup(path):
    """Templates show a translation as it is, so a mark that its text does not have could break the page."""
    assert differing(path, MARKUP) == []


def test_each_visible_text_of_a_template_is_marked():
    words = {path: unmarked_of(template) for path, template in templates()}

    assert {path: left for path, found in words.items() if (left := set(found) - SAME_EVERYWHERE)} == {}


def test_texts_of_modules_templates_and_tables_are_found():
    places = {path.split("/")[0] for path, _message in messages()}
    found = set(chain.from_iterable(forms(message) for _path, message in messages()))

    assert places == {"crawlctl", "jobs", "nodes", "templates", "unfold"}
    # A text inside an f-string, a text of a template with a variable, a text with a plural, and the name of a state.
    assert {
        "Hosts: %(hosts)s.",
        "The token %(created)s, shown only now. Copy it:",
        "%(n)s documents",
        "waiting for approval",
    } <= found


def test_compiled_catalogues_follow_their_sources(tmp_path, monkeypatch):
    source = tmp_path / "de" / "LC_MESSAGES" / "django.po"
    source.parent.mkdir(parents=True)
    source.write_bytes(CATALOGUES[0].read_bytes())
    monkeypatch.setattr("tools.compile_catalogues.CATALOGUES", [source])

    compile_catalogues()
    compiled = source.with_suffix(".mo")
    first = compiled.stat().st_mtime_ns
    compile_catalogues()

    assert compiled.read_bytes()[:4] == b"\xde\x12\x04\x95"
    assert compiled.stat().st_mtime_ns == first


def test_a_process_in_english_loads_no_catalogue_of_django():
    """A process that speaks English loads no catalogue, because that would make its start longer."""
    program = (
        "import django, os; os.environ['DJANGO_SETTINGS_MODULE'] = 'crawlctl.settings'; django.setup();"
        "from django.utils.translation import gettext, ngettext, trans_real;"
        "assert gettext('Host') == 'Host' and ngettext('%d a', '%d b', 2) == '%d b';"
        "assert trans_real._translations == {}, trans_real._translations"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
