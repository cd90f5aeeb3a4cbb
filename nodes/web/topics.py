"""Topics: the names of screens that an open page can follow."""


class TopicUnknown(Exception):
    """Nothing (or nothing any more) is shown under this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is nothing to follow under {name!r}.")
