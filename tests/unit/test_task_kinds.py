"""Proves that kinds of tasks are found by name, and that their arguments are checked by name."""

import pytest
from django.apps import apps

from nodes.tasks.kinds import Kind, UnknownKind, find, installed
from tests.support.tables import each_row

GREET = Kind(
    name="greet",
    title="Greet",
    run=lambda _context, arguments: arguments["name"],
    properties={"name": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    required=("name",),
)
KINDS = (GREET,)


def test_a_kind_that_a_setting_names_is_installed(settings):
    settings.CRAWLCTL_TASKS = (f"{__name__}:KINDS",)

    assert find("greet").title == "Greet"


def test_an_application_names_its_kinds_in_its_configuration(settings, monkeypatch):
    # The kinds are loaded once for each value of the setting.
    settings.CRAWLCTL_TASKS = ("nowhere.at_all:OTHER_KIND",)
    monkeypatch.setattr(apps.get_app_config("jobs"), "task_kinds", f"{__name__}:KINDS", raising=False)

    assert find("greet").title == "Greet"


def test_a_kind_that_cannot_be_loaded_is_left_out(settings):
    settings.CRAWLCTL_TASKS = ("nowhere.at_all:KIND",)

    assert "sleep" in installed()


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(UnknownKind, match=r"os\.system.*sleep"):
        find("os.system")


@each_row(
    ("arguments", "names"),
    [
        ({"name": "Ada"}, []),
        ({"name": "Ada", "times": 2}, []),
        ({}, ["name"]),
        ({"name": "Ada", "tims": 2}, ["tims"]),
        ({"name": 7}, ["name"]),
        ({"name": "Ada", "times": 0}, ["times"]),
        ([], [""]),
    ],
)
def test_an_invalid_argument_of_a_task_is_named(arguments, names):
    assert list(GREET.problems(arguments)) == names
