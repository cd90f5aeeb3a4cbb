"""
The synthetic site as a separate process: `python -m crawlctl.demo.site --pages 2000 --hosts 4`.

Once it listens it prints one line of JSON: `start_url`, and `origins`, `hosts` and `ports` in the order of the plan, so
that its caller can build the same plan. It ends with status 0 on SIGTERM and SIGINT, with its log complete. It does not
import Django.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import uvloop

from crawlctl.demo.listening import HostStyle, listen, origin_of
from crawlctl.demo.log import RequestLog
from crawlctl.demo.plan import SitePlan
from crawlctl.demo.server import Behaviour, BusyHost, Connection, Site, SlowPages
from nodes.life.attachment import call_when_orphaned

# Interval between two flushes of the log (seconds): short for a reader, long compared with one write.
_FLUSH_INTERVAL = 0.1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.busy and not 0 <= options.busy.host < options.hosts:
        parser.error(f"host {options.busy.host} cannot be busy: the hosts are 0 to {options.hosts - 1}")
    try:
        listeners = listen(hosts=options.hosts, port=options.port, style=options.host_style)
        plan = SitePlan(
            seed=options.seed,
            pages=options.pages,
            origins=tuple(map(origin_of, listeners)),
            traps=options.traps,
        )
        log, ends = RequestLog(options.log), RequestLog(options.ends)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    behaviour = Behaviour(
        latency=options.latency_ms / 1000,
        crawl_delay=options.crawl_delay,
        busy=options.busy,
        slow=options.slow,
    )
    with closing(log), closing(ends), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        site = Site(plan=plan, behaviour=behaviour, log=log, ends=ends)
        runner.run(_serve(site=site, plan=plan, listeners=listeners, attached=options.attached))


async def _serve(*, site: Site, plan: SitePlan, listeners: Sequence[socket.socket], attached: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if attached:
        call_when_orphaned(partial(_set, stop, loop=loop))
    for host, listener in enumerate(listeners):
        await loop.create_server(partial(Connection, site=site, host=host), sock=listener)
    sys.stdout.write(json.dumps(_describe(plan, listeners)) + "\n")
    sys.stdout.flush()

    while not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_INTERVAL):
                await stop.wait()
        site.flush()


def _describe(plan: SitePlan, listeners: Sequence[socket.socket]) -> dict[str, object]:
    hosts, ports = zip(*(listener.getsockname() for listener in listeners), strict=True)
    return {"start_url": plan.start_url, "origins": plan.origins, "hosts": hosts, "ports": ports}


def _set(stop: asyncio.Event, *, loop: asyncio.AbstractEventLoop) -> None:
    # The loop is closed if the site stopped for another reason at the same moment.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(stop.set)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crawlctl.demo.site", description="Serve the synthetic site.")
    parser.add_argument("--pages", type=_at_least_one, default=2000, help="number of pages (default: %(default)s)")
    parser.add_argument("--hosts", type=_at_least_one, default=4, help="number of hosts (default: %(default)s)")
    parser.add_argument(
        "--host-style",
        type=HostStyle,
        choices=list(HostStyle),
        default=HostStyle.ADDRESSES,
        help="form of the hosts: 127.0.0.1, 127.0.0.2, …, or ports of 127.0.0.1 (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="number from which the site is generated (default: %(default)s)"
    )
    parser.add_argument("--port", type=_port, default=0, help="first port to try, 0 for any (default: %(default)s)")
    parser.add_argument(
        "--log",
        type=Path,
        default=Path(os.devnull),
        help="file for the log, which the start overwrites (default: none)",
    )
    parser.add_argument(
        "--traps",
        type=float,
        default=2,
        help="percentage of pages of each kind: with a redirect, a missing link, a private link, or a first failure (default: %(default)s)",
    )
    parser.add_argument(
        "--latency-ms", type=_not_negative, default=0, help="delay before each answer (default: %(default)s)"
    )
    parser.add_argument("--crawl-delay", type=_not_negative, help="seconds in each robots.txt (default: no such line)")
    parser.add_argument(
        "--busy",
        type=_busy_host,
        metavar="HOST:ANSWERS:SECONDS",
        help="host, counted from 0, whose first ANSWERS answers are 429 with SECONDS as Retry-After (default: none)",
    )
    parser.add_argument(
        "--slow",
        type=_slow_pages,
        metavar="EVERY:SECONDS",
        help="answer each EVERY-th page after SECONDS (default: none)",
    )
    parser.add_argument(
        "--ends",
        type=Path,
        default=Path(os.devnull),
        help="file for the moments at which requests ended (default: none)",
    )
    parser.add_argument("--attached", action="store_true", help="stop when standard input ends")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not possible: write a number from 1 on")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{number} is not a port: write a number from 0 to 65535")
    return number


def _not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not possible: write a number from 0 on")
    return number


def _busy_host(text: str) -> BusyHost:
    try:
        host, answers, retry_after = map(int, text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not three whole numbers with colons: write 0:5:2") from None
    return BusyHost(host=host, answers=answers, retry_after=retry_after)


def _slow_pages(text: str) -> SlowPages:
    try:
        every, latency = text.split(":")
        return SlowPages(every=_at_least_one(every), latency=_not_negative(latency))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number, a colon and seconds: write 10:1.5") from None


if __name__ == "__main__":
    main(sys.argv[1:])
