"""Which jobs are disabled: switches that may be changed at any time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Switches:
    """`all_disabled` beats the rest; a job without a switch of its own does as `disabled_by_default` says."""

    all_disabled: bool = False
    disabled_by_default: bool = False
    disabled: Mapping[str, bool] = field(default_factory=dict)

    def forbid(self, job: str) -> bool:
        """Whether this job must not run."""
        return self.all_disabled or self.disabled.get(job, self.disabled_by_default)
