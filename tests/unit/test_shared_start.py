"""Proves that Pytest and Hypothesis find the cache files that a process of pytest-xdist prepares for the others."""

from _pytest.assertion import rewrite
from hypothesis import configuration

from tests.support.shared_start import read_constants, rewrite_tests


def test_pytest_finds_rewritten_tests(tmp_path, pytestconfig):
    test = tmp_path / "test_one.py"
    test.write_text("def test_one():\n    assert 1 == 2\n")

    rewrite_tests(pytestconfig, [test])

    (stored,) = rewrite.get_cache_dir(test).iterdir()
    code = rewrite._read_pyc(test, stored)
    assert code is not None
    assert "@pytest_ar" in code.co_names


def test_hypothesis_finds_the_constants_of_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(configuration, "__hypothesis_home_directory", tmp_path / "home")
    module = tmp_path / "module.py"
    module.write_text("LIMIT = 123_456\n")

    read_constants([module])

    (stored,) = (tmp_path / "home" / "constants").iterdir()
    assert "123456" in stored.read_text()
