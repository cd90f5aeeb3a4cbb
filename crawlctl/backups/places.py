"""The places of backups: stores, and folders of this machine."""

from pathlib import Path

from django.conf import settings

from nodes.stores.opening import open_store
from nodes.stores.port import Store


def open_place(place: str, *, creates: bool = False) -> Store:
    """
    Return the store of a place, which may also be the path of a directory. If it `creates`, make that directory.

    Raises:
        InvalidAddress
    """
    if ":" in place.split("/", 1)[0]:
        return open_store(place)
    path = Path(place).absolute()
    if creates and path.parent.is_dir():
        path.mkdir(mode=0o700, exist_ok=True)
    return open_store(f"dir:{path}")


def work_folder() -> Path:
    """Return the folder in which copies are made and checked."""
    path: Path = settings.VAR_DIR / "backups"
    return path


def log_folder() -> Path:
    """Return the folder of the segments that wait for the store."""
    path: Path = settings.VAR_DIR / "wal"
    return path
