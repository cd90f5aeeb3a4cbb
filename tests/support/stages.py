"""A stand-in for a pipeline. A source asks the pipeline which documents it accepts."""


class ReadsTypes:
    """Accepts documents of these types, up to a length in bytes, and notes each question."""

    def __init__(self, *types, most=1_000):
        self.types, self.most, self.asked = types, most, []

    def reads(self, candidate):
        self.asked.append(candidate)
        return candidate.content_type in self.types and (candidate.length is None or candidate.length <= self.most)
