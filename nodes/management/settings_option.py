"""The option for settings on the command line of a daemon."""

import argparse


def add_settings_option(parser: argparse.ArgumentParser) -> None:
    """Offer `--set PATH=VALUE`. The values are in `settings_said`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings_said",
        metavar="PATH=VALUE",
        help="setting of this process, such as cluster.heartbeat_interval=1; repeatable",
    )
