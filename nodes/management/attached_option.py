"""The option of processes that another process starts: `--attached`."""

import argparse


def add_attached_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attached",
        action="store_true",
        help="stop when standard input closes, for example when the parent process ends",
    )
