"""Switches that disable distributed jobs. They may change at any time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Switches:
    """`all_disabled` overrides the rest. `disabled_by_default` applies to jobs without a switch of their own."""

    all_disabled: bool = False
    disabled_by_default: bool = False
    disabled: Mapping[str, bool] = field(default_factory=dict)

    def forbid(self, job: str) -> bool:
        """True if this job must not run."""
        return self.all_disabled or self.disabled.get(job, self.disabled_by_default)
