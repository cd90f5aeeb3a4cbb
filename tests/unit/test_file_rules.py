"""Proves that the rules of a job select the expected files of a tree."""

import pytest

from jobs.connectors.repository.filesystem.rules import Rules, compile_rule
from jobs.connectors.repository.web.scope import BadPattern
from tests.support.tables import each_row

TOP = b"/srv/data"


@each_row(
    ("rule", "path", "matches"),
    [
        ("*.txt", "/srv/data/a.txt", True),
        ("*.txt", "/srv/data/a.txt.gz", False),
        ("*.txt", "/srv/data.txt/a", False),
        ("drafts/*", "/srv/drafts/x", True),
        ("drafts/*", "/srv/drafts/x/y", False),
        ("drafts/**", "/srv/drafts/x/y", True),
        ("afts/*", "/srv/drafts/x", False),
        ("/srv/**/old", "/srv/a/b/old", True),
        ("/srv/**/old", "/srv/old", True),
        ("/srv/**/old", "/usr/srv/old", False),
        ("a?c", "/srv/abc", True),
        ("a?c", "/srv/a/c", False),
        ("[a-c]x", "/srv/bx", True),
        ("[!a-c]x", "/srv/bx", False),
        ("[!a-c]x", "/srv/dx", True),
        ("a[", "/srv/a[", True),
        ("a.b", "/srv/aXb", False),
        ("a\nb", "/srv/a\nb", True),
        ("*", "/srv/a\nb", True),
        ("regex:^/srv/[0-9]+$", "/srv/42", True),
        ("regex:old", "/srv/fold/x", True),
    ],
)
def test_a_rule_matches_the_expected_paths(rule, path, matches):
    assert bool(compile_rule(rule).search(path)) is matches


@each_row("rule", ["regex:(", "regex:(?=x)", "regex:(a)\\1"])
def test_an_expression_that_cannot_be_run_in_linear_time_is_refused(rule):
    with pytest.raises(BadPattern):
        compile_rule(rule)


def test_files_are_included_and_whole_directories_excluded():
    rules = Rules(tops=[TOP], include=["*.txt"], exclude=["old"])

    assert rules.admits_file(b"/srv/data/sub/a.txt")
    assert not rules.admits_file(b"/srv/data/sub/a.pdf")
    assert rules.admits_directory(b"/srv/data/sub")
    assert not rules.admits_directory(b"/srv/data/old")
    assert not rules.admits_file(b"/srv/data/old/deep/a.txt")


def test_hidden_names_and_all_below_them_are_excluded_unless_requested():
    assert not Rules(tops=[TOP]).admits_file(b"/srv/data/.git/config")
    assert not Rules(tops=[TOP]).admits_directory(b"/srv/data/.git")
    assert Rules(tops=[TOP], hidden=True).admits_file(b"/srv/data/.git/config")


def test_seeds_belong_to_a_job_whatever_its_rules_say():
    rules = Rules(tops=[b"/home/me/.notes"], include=["*.txt"], exclude=["me", ".notes"])

    assert rules.admits_directory(b"/home/me/.notes")
    assert rules.admits_file(b"/home/me/.notes/a.txt")


def test_the_target_of_a_link_outside_every_seed_is_judged_by_its_own_name():
    rules = Rules(tops=[TOP], exclude=["*.tmp"])

    assert rules.admits_file(b"/srv/elsewhere/a.txt")
    assert not rules.admits_file(b"/srv/elsewhere/a.tmp")


def test_rules_also_apply_to_names_that_are_not_utf_8():
    assert Rules(tops=[TOP], include=["caf?.txt"]).admits_file(b"/srv/data/caf\xe9.txt")
