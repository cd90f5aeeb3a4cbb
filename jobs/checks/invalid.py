"""The error for input that cannot be stored: one shape for jobs, connections, policies and hosts."""

from collections.abc import Mapping, Sequence


class Invalid(Exception):
    """
    A request cannot be stored. `problems` maps a field to its sentences. Nothing was changed.

    `is_conflict` if the request alone is valid, and another stored object conflicts with it.
    """

    def __init__(self, problems: Mapping[str, Sequence[str]], *, is_conflict: bool = False) -> None:
        self.problems = {name: list(sentences) for name, sentences in problems.items()}
        self.is_conflict = is_conflict
        super().__init__(" ".join(sentence for sentences in self.problems.values() for sentence in sentences))


def name_taken(noun: str, name: str) -> dict[str, list[str]]:
    """Return the problem of a name that another object of the same kind has."""
    return {"name": [f"Another {noun} has the name {name!r}. Choose another name."]}
