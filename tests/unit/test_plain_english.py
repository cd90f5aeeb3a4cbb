"""
Proves that the check of prose (tools/plain_english.py) finds sentences that are hard to read, and that ceilings only
fall.
"""

import subprocess

import pytest

from tests.support.tables import each_row
from tools import plain_english
from tools.plain_english import Exemption, findings_in, lowered, raised_ceilings, read_settings
from tools.prose import passages_of

FOUND = [
    ("a.md", "Who looks for work begins here.", "unnamed subject"),
    ("a.md", "The lock is what protects the row.", "unnamed subject"),
    ("a.md", "It is freed by whoever comes first.", "unnamed subject"),
    ("a.md", "One line that ends here.\nWhat is\nleft is deleted.", "unnamed subject"),
    ("a.md", "Only those that are due are read.", "those that"),
    ("a.md", "Nobody reads the row.", "somebody"),
    ("a.md", "The main beats, and he resigns.", "he for a process"),
    ("a.md", "A worker who is slow gets less.", "who for a process"),
    ("a.md", "A bin is freed so soon.", "so many"),
    ("a.md", "Of a hundred rows one is read.", "Of first"),
    ("a.md", "The lane is looked at anew.", "old word"),
    ("a.md", "The node is gone.", "old word"),
    ("a.md", "One sentence. Another sentence.", "two sentences in a line"),
    ("a.md", "- **Bold.** And more.", "two sentences in a line"),
    ("a.md", "word " * 40, "too wide"),
    ("a.py", "# " + "word " * 30, "too wide"),
    ("a.py", "x = 1  # nobody reads it", "somebody"),
    ("a.py", '"""Whether it is due."""', "start of a docstring"),
    ("a.py", '"""Delete rows; return how many."""', "question after return"),
    ("a.py", '"""Read a row.\n\nRaises:\n    Unknown: it does not exist.\n"""', "it without a noun"),
    ("a.py", "def test_it_reads_the_row():\n    pass", "it without a noun"),
    ("a.py", "# Its rows are locked.", "it without a noun"),
    ("a.py", "x = 1  # it has no types", "it without a noun"),
    ("a.js", "// They are sorted.", "it without a noun"),
    ("a.py", 'def f():\n    """Of a lane, its rows."""', "Of first"),
    ("a.py", "x = f'Row {n} is read by nobody, so it stays.'", "somebody"),
    ("a.py", "x = ('Half of a sentence ' 'that nobody reads.')", "somebody"),
    ("a.py", "def test_nobody_reads_the_row():\n    pass", "somebody"),
    ("a.py", "x = '''SELECT 1 -- nobody waits\n FROM job'''", "somebody"),
    ("a.html", "<p>Nobody is here.</p>", "somebody"),
    ("a.html", "{# Nobody is here. #}", "somebody"),
    ("a.html", '<a title="{% translate "Nobody is here." %}">', "somebody"),
    ("a.js", "// Nobody is here.", "somebody"),
    ("Makefile", "demo: ## show it to everybody", "somebody"),
    (".ci/run", "# Everybody runs this.", "somebody"),
]

LEFT = [
    ("a.md", "Who may read it?"),
    ("a.md", "# What crawlctl does"),
    ("a.md", "The journal shows who changed the job, and what changed."),
    ("a.md", "The message says what happened and what to do next."),
    ("a.md", "An operator who denies a host gives a reason."),
    ("a.md", "The file is so large that it is split."),
    ("a.md", "One sentence, e.g. Django.\nAnother sentence."),
    ("a.md", "Version 5.2. is read"),
    ("a.md", "1. First step.\n2. Second step."),
    ("a.md", "`nobody` and [a link](nobody.md)"),
    ("a.md", "```\nNobody reads code. Nobody. Who is it for.\n```"),
    ("a.md", "| " + "word " * 60 + "| One. Two. |"),
    ("a.py", '"""Return the rows."""'),
    ("a.py", '"""Read a row.\n\nRaises:\n    Unknown: the row does not exist.\n"""'),
    ("a.py", "# The lane keeps its rows. They are locked."),
    ("a.py", "x = 'nobody'"),
    ("a.py", "x = 1  # noqa: S101 - nobody"),
    ("a.py", "x = 'SELECT name FROM he WHERE nobody IS NULL'"),
    ("a.html", '<p class="nobody">{{ nobody }}{% if nobody %}All hosts{% endif %}</p>'),
    ("a.html", "<script>nobody = 1;</script>"),
]


def rules_broken(path, text):
    return [finding.rule.name for finding in findings_in(path, text)]


@each_row(("path", "text", "rule"), FOUND)
def test_a_sentence_that_is_hard_to_read_is_found_by_its_rule(path, text, rule):
    assert rules_broken(path, text) == [rule]


@each_row(("path", "text"), LEFT)
def test_a_plain_sentence_has_no_finding(path, text):
    assert rules_broken(path, text) == []


def test_a_finding_names_the_line_of_the_words():
    text = '"""\nReturn the rows.\n\nThe lock is held\nand nobody waits.\n"""\n\n# one\n# two, nobody\n'

    assert [finding.line for finding in findings_in("a.py", text)] == [5, 9]


def test_a_sentence_over_two_lines_of_a_comment_is_read_as_one():
    (passage,) = passages_of("a.py", "# The first line\n# and the second.\n")

    assert passage.text == "The first line and the second."


@each_row(
    ("exemption", "left"),
    [
        (Exemption("a.md", "a reason"), 0),
        (Exemption("*.md", "a reason", rule="somebody"), 0),
        (Exemption("a.md", "a reason", text="Nobody reads"), 0),
        (Exemption("a.md", "a reason", rule="so many"), 1),
        (Exemption("a.md", "a reason", text="Nobody writes"), 1),
        (Exemption("b.md", "a reason"), 1),
    ],
)
def test_an_exemption_holds_for_its_path_rule_and_text(exemption, left):
    assert len(list(findings_in("a.md", "Nobody reads it.", (exemption,)))) == left


def test_an_exemption_without_a_reason_is_refused():
    with pytest.raises(ValueError, match=r"a\.md needs a reason"):
        read_settings('[[exemptions]]\npath = "a.md"\nreason = " "')


def test_lowered_ceilings_fall_and_never_rise():
    text = '# Numbers.\n[ceilings]\n"." = 3\njobs = 5\nnodes = 2\n\n[[exemptions]]\npath = "x = 9"\n'

    assert lowered(text, {".": 1, "jobs": 7}) == text.replace('"." = 3', '"." = 1').replace("nodes = 2", "nodes = 0")


def test_a_raised_ceiling_and_a_new_one_are_named():
    assert raised_ceilings({"jobs": 5, "nodes": 2}, {"jobs": 6, "nodes": 1, "docs": 1, "web": 0}) == ["jobs", "docs"]


@pytest.fixture
def repository(tmp_path):
    """Return a repository with one finding on main, allowed by its ceiling."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / plain_english.SETTINGS).write_text("[ceilings]\ndocs = 1\n")
    (tmp_path / "docs/a.md").write_text("Nobody reads it.\n\nA plain line.\n")
    run = ["git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run([*run, *words], check=True)
    return tmp_path


def check(repository, capsys, *arguments):
    """Return the exit code of the check and its output."""
    code = plain_english.main(list(arguments), repository)
    return code, capsys.readouterr().out


def test_a_clone_without_changes_passes_within_its_ceilings(repository, capsys):
    assert check(repository, capsys) == (0, "")


def test_a_finding_in_a_changed_line_fails_even_below_the_ceiling(repository, capsys):
    (repository / "docs/a.md").write_text("A plain line.\n\nNobody waits.\n")

    code, output = check(repository, capsys)

    assert code == 1
    assert "docs/a.md:3: somebody: Nobody waits." in output
    assert "ceiling" not in output


def test_a_new_file_has_to_be_plain(repository, capsys):
    (repository / "docs/b.md").write_text("Nobody waits.\n")

    code, output = check(repository, capsys)

    assert code == 1
    assert "docs/b.md:1: somebody" in output
    assert "docs: 2 findings, and the ceiling is 1" in output


def test_a_moved_file_may_keep_its_lines(repository, capsys):
    subprocess.run(["git", "-C", str(repository), "mv", "docs/a.md", "docs/b.md"], check=True)

    assert check(repository, capsys) == (0, "")


def test_a_ceiling_that_was_raised_fails_the_check(repository, capsys):
    (repository / plain_english.SETTINGS).write_text("[ceilings]\ndocs = 2\n")

    code, output = check(repository, capsys)

    assert (code, output) == (1, "tools/plain_english.toml: the ceiling of docs was raised. Ceilings only fall.\n")


def test_a_folder_below_its_ceiling_passes_with_a_hint_to_lower_it(repository, capsys):
    (repository / "docs/a.md").write_text("A plain line.\n")

    code, output = check(repository, capsys)
    assert code == 0
    assert "--lower" in output

    check(repository, capsys, "--lower")
    assert (repository / plain_english.SETTINGS).read_text() == "[ceilings]\ndocs = 0\n"
    assert check(repository, capsys) == (0, "")


def test_findings_are_listed_for_a_folder(repository, capsys):
    code, output = check(repository, capsys, "--list", "docs/")

    assert code == 0
    assert output.startswith("docs/a.md:1: somebody: Nobody reads it.")
    assert output.endswith("1 findings\n")


def test_without_git_all_files_are_checked_against_the_ceilings(tmp_path, capsys):
    (tmp_path / "tools").mkdir()
    (tmp_path / plain_english.SETTINGS).write_text("[ceilings]\n")
    (tmp_path / "a.md").write_text("Nobody waits.\n")

    code, output = check(tmp_path, capsys)

    assert code == 1
    assert ".: 1 findings, and the ceiling is 0" in output
