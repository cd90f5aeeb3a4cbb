"""
Extract the prose of a file: comments, docstrings, sentences in string literals, names of tests, Markdown and templates.

Code inside of prose (`like this`) is masked, so that its words are not read as English.
"""

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    COMMENT = "comment"
    DOCSTRING = "docstring"
    MARKDOWN = "Markdown"
    NAME = "name of a test"
    STRING = "text"
    TEMPLATE = "template"


@dataclass(frozen=True)
class Passage:
    """Text that is read as one piece, with the lines that it comes from."""

    kind: Kind
    lines: tuple[tuple[int, str], ...]
    # A docstring's first paragraph: its first word is a verb.
    is_opening: bool = False
    # A heading or a row of a table: no full stop separates its parts.
    is_fragment: bool = False

    @property
    def text(self) -> str:
        return " ".join(text for _, text in self.lines)

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds this character of `text`."""
        starts = [0]
        for _, text in self.lines[:-1]:
            starts.append(starts[-1] + len(text) + 1)
        return self.lines[bisect_right(starts, offset) - 1][0]


_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:|ruff:|!)")
_SQL = re.compile(r"\b(?:SELECT|UPDATE|INSERT INTO|DELETE FROM|CREATE|ALTER|DROP|FROM|WHERE|SET|RETURNING)\b")
_SQL_COMMENT = re.compile(r"--\s+(.*)")
_TEMPLATE_COMMENT = re.compile(r"\{#(.*?)#\}|\{% comment.*?%\}(.*?)\{% endcomment %\}", re.DOTALL)
_TEMPLATE_TEXT = re.compile(r"\{%\s*(?:translate|trans)\s+(?:\"([^\"]*)\"|'([^']*)')")
_MARKUP = re.compile(r"<(script|style|svg)\b.*?</\1>|\{%.*?%\}|\{\{.*?\}\}|<!--.*?-->|<[^>]*>", re.DOTALL)
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_LEAST_SPACES_OF_A_SENTENCE = 3


def passages_of(path: str, text: str) -> Iterator[Passage]:
    """Yield the prose of a file, by the ending of its name."""
    if path.endswith(".py"):
        yield from _of_python(text)
    elif path.endswith(".md"):
        yield from _of_markdown(text)
    elif path.endswith(".html"):
        yield from _of_template(text)
    elif path.endswith(".js"):
        yield from _of_comment_lines(text, mark="//")
    else:
        yield from _of_comment_lines(text, mark="#")


def masked(text: str) -> str:
    """Return the text with code and link targets replaced by as many characters that are not words."""
    text = _CODE.sub(lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)
    return _LINK_TARGET.sub(lambda target: "(" + "x" * (len(target[0]) - 2) + ")", text)


def _of_python(text: str) -> Iterator[Passage]:
    tree = ast.parse(text)
    # Walk the tree once: a walk costs more than all work on its nodes.
    nodes = list(ast.walk(tree))
    docstrings = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (docstring := _docstring(node)) is not None:
                docstrings.add(docstring)
                yield from _of_docstring(docstring)
            if node is not tree and isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield Passage(Kind.NAME, ((node.lineno, node.name.removeprefix("test_").replace("_", " ")),))
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield from _of_string(node, "".join(_part(part) for part in node.values))
        elif isinstance(node, ast.Constant) and node not in docstrings and node not in parts:
            yield from _of_string(node, node.value if isinstance(node.value, str) else "")
    yield from _of_comments(text)


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Constant | None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def _of_docstring(docstring: ast.Constant) -> Iterator[Passage]:
    numbered = [(docstring.lineno + place, line.strip()) for place, line in enumerate(str(docstring.value).split("\n"))]
    is_opening = True
    for paragraph in _paragraphs(numbered):
        yield Passage(Kind.DOCSTRING, paragraph, is_opening=is_opening)
        is_opening = False


def _part(part: ast.expr) -> str:
    """Return a part of an f-string. A value in it becomes a word that no rule knows."""
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "x"


def _of_string(node: ast.expr, value: str) -> Iterator[Passage]:
    if _SQL.search(value):
        for place, line in enumerate(value.split("\n")):
            if comment := _SQL_COMMENT.search(line):
                yield Passage(Kind.COMMENT, ((node.lineno + place, masked(comment[1])),))
    elif value.strip().count(" ") >= _LEAST_SPACES_OF_A_SENTENCE:
        yield Passage(Kind.STRING, ((node.lineno, masked(" ".join(value.split()))),))


def _of_comments(text: str) -> Iterator[Passage]:
    gathered: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        line, is_alone = token.start[0], not token.line[: token.start[1]].strip()
        if gathered and not (is_alone and gathered[-1][0] == line - 1):
            yield Passage(Kind.COMMENT, tuple(gathered))
            gathered = []
        gathered.append((line, masked(token.string.lstrip("# "))))
    if gathered:
        yield Passage(Kind.COMMENT, tuple(gathered))


def _of_comment_lines(text: str, *, mark: str) -> Iterator[Passage]:
    """Yield comments without code on their lines, and the help texts of a Makefile."""
    numbered = []
    for number, line in enumerate(text.split("\n"), 1):
        comment = line.strip().removeprefix(mark).strip() if line.strip().startswith(mark) else ""
        numbered.append((number, "" if _DIRECTIVE.match(line) else comment))
        if not comment and mark == "#" and " ## " in line:
            yield Passage(Kind.STRING, ((number, masked(line.partition(" ## ")[2])),))
    for paragraph in _paragraphs(numbered):
        yield Passage(Kind.COMMENT, paragraph)


def _of_markdown(text: str) -> Iterator[Passage]:
    gathered: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate([*text.split("\n"), ""], 1):
        stripped = line.strip()
        opens = re.match(r"(```+|~~~+)", stripped)
        if fence:
            fence = "" if opens and stripped == fence else fence
            continue
        is_fragment = stripped.startswith(("#", "|"))
        if gathered and (opens or not stripped or is_fragment or _LIST_ITEM.match(line)):
            yield Passage(Kind.MARKDOWN, tuple(gathered))
            gathered = []
        if opens:
            fence = opens[1]
        elif is_fragment:
            yield Passage(Kind.MARKDOWN, ((number, masked(stripped.lstrip("#| "))),), is_fragment=True)
        elif stripped and not stripped.startswith("<!--"):
            gathered.append((number, masked(_LIST_ITEM.sub("", line, count=1).strip())))


def _of_template(text: str) -> Iterator[Passage]:
    for comment in _TEMPLATE_COMMENT.finditer(text):
        first = text.count("\n", 0, comment.start()) + 1
        said = comment[1] or comment[2] or ""
        for paragraph in _paragraphs([(first + place, line.strip()) for place, line in enumerate(said.split("\n"))]):
            yield Passage(Kind.COMMENT, paragraph)
    rest = _TEMPLATE_COMMENT.sub(_blank, text)
    for words in _TEMPLATE_TEXT.finditer(rest):
        yield Passage(Kind.TEMPLATE, ((rest.count("\n", 0, words.start()) + 1, words[1] or words[2] or ""),))
    visible = _MARKUP.sub(_blank, rest)
    numbered = [(number, " ".join(line.split())) for number, line in enumerate(visible.split("\n"), 1)]
    for paragraph in _paragraphs(numbered):
        yield Passage(Kind.TEMPLATE, paragraph)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _paragraphs(numbered: list[tuple[int, str]]) -> Iterator[tuple[tuple[int, str], ...]]:
    """Yield runs of lines that are not empty."""
    gathered: list[tuple[int, str]] = []
    for number, line in [*numbered, (0, "")]:
        if line:
            gathered.append((number, masked(line)))
        elif gathered:
            yield tuple(gathered)
            gathered = []
