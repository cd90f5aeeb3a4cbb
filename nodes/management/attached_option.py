"""The option `--attached`, for processes that another process starts: they end with that process."""

import argparse


def add_attached_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attached",
        action="store_true",
        help="stop when standard input closes, for example when the parent process ends",
    )
