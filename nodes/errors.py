"""
The errors of requests: invalid input, an unknown object, a refusal.

Each message can be shown to the person who made the request, as it is. `code` is stable, for programs.
A subclass exists only if a caller handles this error differently.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class NotDone(Exception):
    """The request was not executed. Nothing was changed."""

    code: ClassVar[str]


class Invalid(NotDone):
    """The request has invalid fields. `problems` maps a field to its sentences."""

    code = "invalid"

    def __init__(self, problems: Mapping[str, Sequence[str]]) -> None:
        self.problems = {name: list(sentences) for name, sentences in problems.items()}
        super().__init__(" ".join(sentence for sentences in self.problems.values() for sentence in sentences))

    @property
    def by_field(self) -> str:
        """
        Return one text with all problems, each after the name of its field. Problems of the whole request have no name.
        """
        return " ".join(f"{name}: {' '.join(each)}" if name else " ".join(each) for name, each in self.problems.items())


class NameTaken(Invalid):
    """The request itself is valid, but another object of its kind has the name."""

    code = "name_taken"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__({"name": [f"Another {kind} has the name {name!r}. Choose another name."]})


class Unknown(NotDone):
    """The object does not exist. `kind` is its noun. `sentence` is "" for the usual sentence."""

    code = "not_found"

    def __init__(self, kind: str, id: object, sentence: str = "") -> None:  # noqa: A002 (the word of the API)
        self.kind, self.id = kind, id
        self.sentence = sentence
        super().__init__(sentence or f"{kind.capitalize()} {id} does not exist.")


class Refused(NotDone):
    """The state of the object, or of the cluster, does not allow the request now."""

    code = "refused"


class ChangedMeanwhile(Refused):
    """The object is no longer in the state that the request names."""

    code = "precondition_failed"


class InUse(Refused):
    """Other objects need the object, so it cannot be deleted."""

    code = "in_use"


class NotAllowed(NotDone):
    """The author of the request lacks a permission for it."""

    code = "permission_denied"


class TooSlow(Refused):
    """The answer would have taken too long. A request for less may succeed."""

    code = "too_slow"
