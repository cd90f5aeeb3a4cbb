"""Proves properties of the source of every template, without a page that uses the template."""

import re
from pathlib import Path

from tests.support.tables import each_row

TEMPLATES = Path(__file__).parents[2] / "templates" / "ui"


@each_row("name", sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html")))
def test_each_table_has_a_caption_for_screen_readers(name):
    text = (TEMPLATES / name).read_text()

    unnamed = [table for table in re.findall(r"<table[^>]*>", text) if "aria-label" not in table]

    assert unnamed == []
    assert "<th></th>" not in text
    # Each id that labels a table or a section exists.
    assert set(re.findall(r'aria-labelledby="([^"{]+)"', text)) <= set(re.findall(r'id="([^"{]+)"', text))
