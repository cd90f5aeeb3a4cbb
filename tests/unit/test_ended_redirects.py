"""Proves that redirects of seeds end when one of their addresses answers with a page, and all others stay."""

from jobs.connectors.repository.web.ended_redirects import ended_with, redirects_without_seed
from tests.support.tables import each_row

CHAIN = {"seed": "x", "x": "y", "y": "www"}


@each_row(
    ("source", "redirects", "seeds", "ended"),
    [
        ("seed", CHAIN, {"seed"}, ["seed", "x", "y"]),
        ("x", CHAIN, {"seed"}, ["x", "y"]),
        ("www", CHAIN, {"seed"}, []),
        ("seed", CHAIN, {"seed", "x"}, ["seed"]),
        ("seed", {**CHAIN, "other": "y"}, {"seed", "other"}, ["seed", "x"]),
        ("seed", {"seed": "x", "x": "seed"}, {"seed"}, ["seed", "x"]),
        ("x", {"x": "y", "y": "x"}, {"seed"}, ["x", "y"]),
        ("seed", {}, {"seed"}, []),
    ],
)
def test_an_ended_redirect_ends_the_next_redirects_that_nothing_else_uses(source, redirects, seeds, ended):
    assert ended_with(source, redirects, seeds=seeds) == ended


@each_row(
    ("redirects", "seeds", "ended"),
    [
        (CHAIN, ["seed"], set()),
        (CHAIN, [], {"seed", "x", "y"}),
        (CHAIN, ["x"], {"seed"}),
        ({**CHAIN, "other": "y"}, ["other"], {"seed", "x"}),
        ({"seed": "x", "x": "seed", "y": "z", "z": "y"}, ["seed"], {"y", "z"}),
        ({}, ["seed"], set()),
    ],
)
def test_a_redirect_to_which_no_seed_leads_ends(redirects, seeds, ended):
    assert redirects_without_seed(redirects, seeds=seeds) == ended
