"""The redirects of seeds that end when one of their addresses answers with a page."""

from collections.abc import Collection, Mapping


def ended_with(source: str, redirects: Mapping[str, str], *, seeds: Collection[str]) -> list[str]:
    """
    Return the sources of the redirects that end if `source` answers with a page; an empty set if `source` has no
    redirect. `redirects` has the target of each source.

    These are `source` and the addresses to which it redirected, step by step. The chain stops before a seed, and before
    an address to which another redirect leads.
    """
    ended: list[str] = []
    at = source
    while at in redirects and at not in ended:
        ended.append(at)
        at = redirects[at]
        if at in seeds or any(target == at for other, target in redirects.items() if other not in ended):
            break
    return ended


def redirects_without_seed(redirects: Mapping[str, str], *, seeds: Collection[str]) -> set[str]:
    """Return the sources of the redirects to which no chain of redirects leads from a seed."""
    left = set(redirects)
    for seed in seeds:
        at = seed
        while at in left:
            left.remove(at)
            at = redirects[at]
    return left
