"""The redirects of seeds that end when one of their addresses answers with a page."""

from collections.abc import Collection, Mapping


def ended_with(source: str, redirects: Mapping[str, str], *, seeds: Collection[str]) -> list[str]:
    """
    Return the sources of the redirects (target by source) that end with the one of `source`; none if there is no such.

    These are the redirect itself, and those of the addresses to which it led, up to one that is a seed or to which
    another redirect leads.
    """
    ended: list[str] = []
    at = source
    while at in redirects and at not in ended:
        ended.append(at)
        at = redirects[at]
        if at in seeds or any(target == at for other, target in redirects.items() if other not in ended):
            break
    return ended
