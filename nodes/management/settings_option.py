"""The options for settings on the command line of a daemon."""

import argparse
from typing import Any

from nodes.settings.declaration import Setting


def add_settings_option(parser: argparse.ArgumentParser) -> None:
    """Offer `--set PATH=VALUE`. The command finds the values in its option `settings_options`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings_options",
        metavar="PATH=VALUE",
        help="setting of this process, such as cluster.heartbeat_interval=1; repeatable",
    )


def add_short_option(
    parser: argparse.ArgumentParser, flag: str, setting: Setting[Any], *, metavar: str, meaning: str
) -> None:
    """Offer a separate option for a setting. It means the same as `--set` with the setting's path."""
    parser.add_argument(
        flag,
        action="append",
        default=[],
        dest="settings_options",
        type=lambda value: f"{setting.path}={value}",
        metavar=metavar,
        help=f"{meaning} ({setting.environment}, default: {setting.kind.as_json(setting.default)})",
    )
