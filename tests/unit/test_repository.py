"""Proves that documents printed from code are up to date, and that lists are complete."""

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from jobs.lifecycle import diagram
from jobs.settings import manual
from jobs.settings.table import TABLE
from jobs.words.codes import explain_code
from tests.benchmarks import strategies

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text()


def pages_for_readers() -> list[Path]:
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "docs/monitoring/README.md"]


def settings_named_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:CRAWLCTL_[A-Z_]+|DATABASE_URL)\b", text))


def test_the_lifecycle_page_matches_the_output_of_the_tables():
    assert read("docs/lifecycle.md") == diagram.page()


def test_the_page_of_strategies_matches_their_scenarios():
    assert read("docs/strategies.md") == strategies.page()


def test_every_setting_is_in_the_example_and_every_example_is_a_setting():
    assert settings_named_in(read(".env.example")) == {setting.environment for setting in TABLE.settings}


def test_the_list_of_settings_in_the_manual_matches_their_table():
    assert read(manual.MANUAL) == manual.rewritten(read(manual.MANUAL))
    assert manual.table_of_settings() in read(manual.MANUAL)


def test_every_command_is_in_the_operating_manual():
    commands = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
    commands |= {path.stem for path in ROOT.glob("*/*/management/commands/[a-z]*.py")}

    for command in commands:
        assert f"manage.py {command}" in read("docs/operating.md"), command


def test_every_command_and_target_that_a_page_names_exists():
    commands = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
    commands |= {path.stem for path in ROOT.glob("*/*/management/commands/[a-z]*.py")}
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))

    for page in pages_for_readers():
        assert set(re.findall(r"manage\.py ([a-z_]+)", page.read_text())) <= commands, page.name
        assert set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= {
            pair for target in targets for pair in ((target, ""), ("", target))
        }, page.name


def test_each_word_of_the_glossary_stands_once_with_one_sentence():
    rows = re.findall(r"^\| (?!word )([^|]+) \| ([^|]+) \|.*\|$", read("docs/glossary.md"), re.MULTILINE)
    words = [word for row in rows for word in row[0].split(", ")]

    assert len(words) > 60
    assert sorted(words) == sorted(set(words))
    for word, meaning in rows:
        assert re.fullmatch(r"[A-Z][^.]*\.", meaning), word


def test_every_top_level_folder_has_its_line_in_the_architecture():
    # Python writes `__pycache__` beside a module at the top, such as hatch_build.py.
    made = {"var", "__pycache__"}
    folders = {path.parent.name for path in ROOT.glob("*/*") if not path.parent.name.startswith(".")} - made

    for folder in folders:
        assert f"{folder}/" in read("ARCHITECTURE.md"), folder


def test_every_connector_is_documented():
    connectors = {path.parent.name for path in ROOT.glob("jobs/connectors/repository/*/connector.py")}
    connectors |= {path.stem for path in ROOT.glob("jobs/connectors/output/*.py")} & {"search", "jsonl", "null"}

    for connector in connectors:
        assert connector in read("docs/connectors.md"), connector


def test_no_requirement_names_where_it_is_fetched_from():
    for path in ROOT.glob("requirements*.txt"):
        assert "://" not in path.read_text(), path.name


def test_every_result_code_in_the_connectors_tables_is_explained_to_people():
    tables = "\n".join(line for line in read("docs/connectors.md").splitlines() if line.startswith("|"))
    codes = set(re.findall(r"`([A-Z][A-Z_]{2,})`", tables))

    assert {"ROBOTS", "BROKEN_FEED", "DIRECTORY"} <= codes
    assert {code for code in codes if not explain_code(code)} == set()


def tools_of(lines):
    """Return the tool of each line that runs a Python module: its name, or its expression."""
    words = [shlex.split(line) for line in lines]
    return {line[2] for line in words if line[1:2] in (["-m"], ["-c"])}


def test_the_hooks_of_git_run_the_tools_of_make_check():
    hooks = [hook for repo in yaml.safe_load(read(".pre-commit-config.yaml"))["repos"] for hook in repo["hooks"]]
    names = re.search(r"^CHECKS := \$\(addprefix check-, (.*)\)$", read("Makefile"), re.MULTILINE)[1].split()
    recipes = [re.search(rf"^check-{name}:\n\t(.*)$", read("Makefile"), re.MULTILINE)[1] for name in names]
    checks = [recipe for recipe in recipes if recipe.startswith("$(PYTHON)")]

    assert tools_of(hook["entry"] for hook in hooks) == tools_of(checks)
    assert all(hook["language"] == "system" for hook in hooks)


@pytest.mark.parametrize("target", ["demo", "run"])
def test_starts_compile_the_documentation_if_a_source_is_newer(target, tmp_path):
    for folder in ("docs", "static/css"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "Makefile", tmp_path)
    compiled = tmp_path / "var" / "docs" / "docs" / "index.html"
    compiled.parent.mkdir(parents=True)
    compiled.touch()

    def steps(*options):
        command = ["make", "--dry-run", *options, target]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "-m sphinx" not in steps()
    assert "-m sphinx" in steps("--what-if=docs/operating.md")


def test_files_and_classes_are_short_or_a_record_says_why_not():
    record = read("docs/decisions/0048-sizes-of-files-and-classes.md")
    long_files, long_classes = set(), set()
    for folder in ("crawlctl", "jobs", "nodes", "tools"):
        for path in (path for path in (ROOT / folder).rglob("*.py") if path.parent.name != "migrations"):
            text = path.read_text()
            if len(text.splitlines()) >= 400:
                long_files.add(str(path.relative_to(ROOT)))
            classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
            long_classes |= {node.name for node in classes if node.end_lineno - node.lineno >= 199}

    lists = record.partition("## Decision")[2].partition("## Alternatives")[0]
    files, _, classes = lists.partition("Classes:")
    assert set(re.findall(r"`((?:crawlctl|jobs|nodes|tools)/[a-z_/]+\.py)`", files)) == long_files
    assert set(re.findall(r"`([A-Z]\w+)`", classes)) == long_classes
