"""Switches that disable distributed jobs. They may change at any time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of a cluster. `all_disabled` overrides all others. `disabled_by_default` is for jobs without one."""

    all_disabled: bool = False
    disabled_by_default: bool = False
    disabled: Mapping[str, bool] = field(default_factory=dict)

    def disables(self, job: str) -> bool:
        """True if this job must not run."""
        return self.all_disabled or self.disabled.get(job, self.disabled_by_default)
