"""
Proves that generated documents are up to date, that lists in documents are complete, and that names in them exist.
"""

import argparse
import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.urls import resolve

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


def test_every_command_is_on_the_page_of_commands():
    commands = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
    commands |= {path.stem for path in ROOT.glob("*/*/management/commands/[a-z]*.py")}

    for command in commands:
        assert f"manage.py {command}" in read("docs/commands.md"), command


def test_every_command_and_target_that_a_page_names_exists():
    commands = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
    commands |= {path.stem for path in ROOT.glob("*/*/management/commands/[a-z]*.py")}
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))

    for page in pages_for_readers():
        assert set(re.findall(r"manage\.py ([a-z_]+)", page.read_text())) <= commands, page.name
        assert set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= {
            pair for target in targets for pair in ((target, ""), ("", target))
        }, page.name


def pages_of_present_version() -> list[Path]:
    """Return the pages about the present version: the changelog also has names of earlier ones."""
    return [page for page in pages_for_readers() if page.name != "CHANGELOG.md"]


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a command and of its verbs."""
    options = {option for action in parser._actions for option in action.option_strings}
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return options.union(*(options_of(parser) for verb in verbs for parser in verb.choices.values()))


def test_every_option_of_a_command_that_a_page_names_exists():
    applications = get_commands()
    known: dict[str, set[str]] = {}

    for page in pages_of_present_version():
        for command, rest in re.findall(r"(?:manage\.py|crawlctl) ([a-z_]+)((?: [^`|#\n]*)?)", page.read_text()):
            if (options := set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest))) and command in applications:
                if command not in known:
                    made = load_command_class(applications[command], command)
                    known[command] = options_of(made.create_parser("manage.py", command))
                assert options <= known[command], f"{page.name}: {command}"
    assert {"crawl", "partition", "drill"} <= known.keys()


def test_every_address_of_the_api_that_a_page_names_exists():
    # Values of the variables in addresses: a number, the id of a document, that of a node, and a name.
    values = ("1", f"1-{'0' * 32}", str(uuid.UUID(int=1)), "name")

    address = re.compile(r"/api/v1/[\w{}/-]+/(?![\w{…])")
    named = {(page.name, found) for page in pages_of_present_version() for found in address.findall(page.read_text())}
    for page, found in named:
        ids = [re.sub(r"{id}|NAME", value, found).replace("{number}", "1") for value in values]
        # Unknown addresses of the API also have a view, so that view does not count.
        assert any(resolve(one).route != "api/v1/" for one in ids), f"{page}: {found}"
    assert len(named) > 100


def test_every_setting_that_a_page_names_exists():
    settings = {setting.environment for setting in TABLE.settings}
    of_tests = settings_named_in("".join(path.read_text() for path in ROOT.glob("tests/*/test_*.py")))

    for page in pages_of_present_version():
        named = settings_named_in(page.read_text()) - {"CRAWLCTL_"}
        assert named <= settings | {name for name in of_tests if "_TEST_" in name}, page.name


def test_every_module_and_file_that_a_page_names_exists():
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("*.*")}
    for folder in ("crawlctl", "jobs", "nodes", "tests", "docs", "deploy", "tools", "templates"):
        files |= {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.*")}
    # Pages may name a module without its application and its folder.
    ends = {path.split("/", depth)[-1] for path in files for depth in range(path.count("/"))}

    for page in pages_of_present_version():
        text = page.read_text()
        for module in set(re.findall(r"python -m ([a-z_.]+[a-z])", text)):
            assert importlib.util.find_spec(module), f"{page.name}: {module}"
        named = re.findall(
            r"`((?:tests|jobs|nodes|crawlctl|tools|deploy|[a-z]+)/[\w/-]+\.(?:py|md|yml|toml|ini))`", text
        )
        assert set(named) <= ends, page.name


def test_every_command_in_a_block_can_be_pasted():
    for page in pages_for_readers():
        assert not re.search(r"^ *manage\.py ", page.read_text(), re.MULTILINE), page.name


def test_the_glossary_explains_each_word_once_in_one_sentence():
    rows = re.findall(r"^\| (?!word )([^|]+) \| ([^|]+) \|.*\|$", read("docs/glossary.md"), re.MULTILINE)
    words = [word for row in rows for word in row[0].split(", ")]

    assert len(words) > 60
    assert sorted(words) == sorted(set(words))
    for word, meaning in rows:
        assert re.fullmatch(r"[A-Z][^.]*\.", meaning), word


def test_every_top_level_folder_has_its_line_in_the_architecture():
    # Python writes `__pycache__` next to a module at the top, such as hatch_build.py.
    made = {"var", "__pycache__"}
    folders = {path.parent.name for path in ROOT.glob("*/*") if not path.parent.name.startswith(".")} - made

    for folder in folders:
        assert f"{folder}/" in read("ARCHITECTURE.md"), folder


def test_every_connector_is_documented():
    connectors = {path.parent.name for path in ROOT.glob("jobs/connectors/repository/*/connector.py")}
    connectors |= {path.stem for path in ROOT.glob("jobs/connectors/output/*.py")} & {"search", "jsonl", "null"}

    for connector in connectors:
        assert connector in read("docs/connectors.md"), connector


def test_no_requirements_file_names_a_package_server():
    for path in ROOT.glob("requirements*.txt"):
        assert "://" not in path.read_text(), path.name


def test_every_result_code_in_the_tables_of_connectors_has_an_explanation():
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
def test_a_start_compiles_the_documentation_if_a_source_is_newer(target, tmp_path):
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


def test_files_and_classes_are_short_or_a_decision_record_explains_them():
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


def test_statements_name_stages_and_outcomes_instead_of_writing_their_numbers():
    number = re.compile(r"\b(?:stage|outcome|action) (?:NOT )?(?:IN \(|= |<> )\d")
    statements = [
        path
        for package in ("jobs", "nodes")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    ]

    assert [str(path.relative_to(ROOT)) for path in statements if number.search(path.read_text())] == []
