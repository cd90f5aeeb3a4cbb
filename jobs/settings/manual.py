"""The list of settings in docs/settings.md, generated from their table: `python -m jobs.settings.manual`."""

from pathlib import Path
from typing import Any, Final

from jobs.settings.table import TABLE
from nodes.settings.declaration import Setting
from nodes.settings.kinds import Text, Words

MANUAL: Final = Path("docs/settings.md")
BEGIN: Final = "<!-- The settings, printed by `python -m jobs.settings.manual`: begin -->\n"
END: Final = "<!-- The settings: end -->\n"


def table_of_settings() -> str:
    """Return the settings as a table in Markdown."""
    return "".join(
        [
            "| setting | variable | default | allowed | takes effect |\n|---|---|---|---|---|\n",
            *(_row(setting) for setting in TABLE.settings),
        ]
    )


def rewritten(manual: str) -> str:
    """Return the manual with the present table of settings in its place."""
    before, _begin, rest = manual.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return f"{before}{BEGIN}{table_of_settings()}{END}{after}"


def _row(setting: Setting[Any]) -> str:
    path = f"`{setting.path}`<br>" if setting.can_be_stored else ""
    return (
        f"| {path}{setting.meaning} | `{setting.environment}` | {_default(setting)} "
        f"| {setting.kind.allowed} | {setting.applies} |\n"
    )


def _default(setting: Setting[Any]) -> str:
    match setting.kind:
        case Text() | Words() if not setting.default:
            return ""
        case _:
            return (
                f"`{str(setting.as_json(setting.default)).lower()}`"
                if isinstance(setting.default, bool)
                else f"`{setting.as_json(setting.default)}`"
            )


if __name__ == "__main__":
    MANUAL.write_text(rewritten(MANUAL.read_text()))
