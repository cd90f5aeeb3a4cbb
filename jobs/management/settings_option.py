"""The option by which the command line of a daemon says settings."""

import argparse


def add_settings_option(parser: argparse.ArgumentParser) -> None:
    """Offer `--set PATH=VALUE`; what was said is in `settings_said`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings_said",
        metavar="PATH=VALUE",
        help="setting of this process, such as cluster.heartbeat_interval=1; repeatable",
    )
