"""Topics: the names of screens that an open page can follow."""


class TopicUnknown(Exception):
    """No screen has this name, or its object no longer exists."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is nothing to follow under {name!r}.")
