"""
The trap guard on many sites: the share of wasted fetches that it avoids, the share of good pages that it holds back, and
the cost of a page.

    python -m tests.benchmarks.traps --sites 10
    python -m tests.benchmarks.traps --pages /usr/share/doc

With --pages, the files are the pages of one host in the order of their depth. Copies and redirects are counted apart.

The exit code is 1 if the guard avoids less than 95 % of the fetches of a trap, or holds back 0.5 % of the good pages.
"""

import argparse
import sys
import time
from pathlib import Path
from urllib.parse import quote

from jobs.reading.page import read_page
from jobs.traps.radar import HostRadar
from jobs.traps.templates import grouped
from tests.support import trap_sites
from tests.unit.test_trap_radar import Crawled, crawl, read

_LEAST_AVOIDED = 0.95
_MOST_HELD = 0.005


def main() -> int:
    """Print a line for each trap, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=10, help="sites for each trap (default: %(default)s)")
    parser.add_argument("--pages", type=Path, help="read the HTML files below this directory instead")
    given = parser.parse_args()
    if given.pages is not None:
        _read_directory(given.pages)
        return 0
    sites = given.sites
    every, is_good = [], True
    for trap in trap_sites.TRAPS:
        counts = [crawl(trap_sites.site_with(trap, f" {number}")) for number in range(sites)]
        least = min(one.held_wasted for one in counts) / trap_sites.WASTED
        sys.stdout.write(f"{trap:24} at least {least:6.1%} avoided\n")
        every += counts
        is_good = is_good and least >= _LEAST_AVOIDED
    for name in trap_sites.GOOD_SITES:
        radar, one = HostRadar(), Crawled()
        for page in trap_sites.good_site(name, 1_000 * sites):
            read(radar, page, one)
        every.append(one)
    held, good = sum(one.held_good for one in every), sum(one.held_good + one.read_good for one in every)
    sys.stdout.write(f"good pages held back: {held:,} of {good:,} ({held / good:.2%})\n")
    sys.stdout.write(f"a first reading of a page of 300 lines: {_cost() * 1e6:.0f} µs\n")
    return int(not is_good or held >= _MOST_HELD * good)


def _read_directory(directory: Path) -> None:
    """Print how many pages would be held back, and the suspects."""
    files = sorted(directory.rglob("*.html"), key=lambda path: (len(path.parts), path))
    radar, known = HostRadar(), set()
    read_pages, held_pages = {True: 0, False: 0}, {True: 0, False: 0}
    suspects = {}
    for path in files:
        text = read_page(path.read_text(errors="replace"), robots_name="crawlctl").text
        if not text.strip():
            continue
        url = f"http://pages.example/{quote(str(path.relative_to(directory)))}"
        address = grouped(url)
        is_copy = text in known or text.lower().lstrip().startswith("redirect")
        known.add(text)
        suspect = radar.suspect_of(address)
        if suspect is None:
            suspect = radar.add(url, address, text, read=len(text))
            read_pages[is_copy] += 1
        else:
            held_pages[is_copy] += 1
        if suspect is not None:
            suspects[suspect.group.template] = suspect
    for name, kind in (("pages", False), ("copies and redirects", True)):
        every = read_pages[kind] + held_pages[kind]
        sys.stdout.write(
            f"{name}: {held_pages[kind]:,} of {every:,} held back ({held_pages[kind] / max(1, every):.2%})\n"
        )
    for suspect in suspects.values():
        sys.stdout.write(f"suspect {suspect.group.template}: {suspect.new} of {suspect.fetched} had new content\n")


def _cost() -> float:
    """Return the seconds to count one page."""
    pages = list(trap_sites.good_site("listing", 300))
    texts = ["\n".join(f"{line} {more}" for more in range(50) for line in page.text.split("\n")) for page in pages]
    radar, began = HostRadar(), time.process_time()
    for page, text in zip(pages, texts, strict=True):
        radar.add(page.url, grouped(page.url), text, read=1)
    return (time.process_time() - began) / len(pages)


if __name__ == "__main__":
    sys.exit(main())
