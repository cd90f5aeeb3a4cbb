"""The app `definitions`: files of jobs, connections and policies, and their versions. It has no tables."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from jobs.partitions import configuration


class DefinitionsConfig(AppConfig):
    name = "jobs.definitions"
    label = "definitions"
    verbose_name = _("Definitions")

    def ready(self) -> None:
        from jobs.definitions.comparing import differences_of  # noqa: PLC0415 (its models are loaded only now)
        from jobs.definitions.partitions import adopt, read_for_partitions  # noqa: PLC0415 (its models are loaded only now)
        from jobs.definitions.reading import read_shown  # noqa: PLC0415 (the same)
        from jobs.state import versions  # noqa: PLC0415 (the same)

        configuration.register(read=read_for_partitions, adopt=adopt)
        versions.register(read=read_shown, compare=differences_of)
