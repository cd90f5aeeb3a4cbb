"""
The names of tables and columns on the set-up pages, in the language of the page.

Models have English names, which migrations keep. Only a name that a page shows is translated.
"""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import flatten_fieldsets
from django.db.models import Field, Model
from django.utils.translation import gettext_lazy


def translate_names(site: AdminSite) -> tuple[str, ...]:
    """Let each name of a registered model be translated when a page shows it. Return the English names."""
    names = set()
    for model, admin in site._registry.items():  # noqa: SLF001 (Django has no public name)
        if not model.__module__.startswith("django."):
            for part, options in ((model, admin), *((inline.model, inline) for inline in admin.inlines)):
                meta: Any = part._meta  # noqa: SLF001 (Django's own word)
                singular, plural = str(meta.verbose_name), str(meta.verbose_name_plural)
                meta.verbose_name, meta.verbose_name_plural = gettext_lazy(singular), gettext_lazy(plural)
                names |= {singular, plural}
                for field in _shown(part, options):
                    names.add(str(field.verbose_name))
                    field.verbose_name = gettext_lazy(str(field.verbose_name))
    return tuple(sorted(names))


def _shown(model: type[Model], options: Any) -> "Iterator[Field[Any, Any]]":  # noqa: ANN401 (an admin, or a class of inlines)
    form = getattr(options.form, "_meta", None)
    names = {
        *(options.fields or ()),
        *flatten_fieldsets(options.fieldsets or ()),
        *(getattr(form, "fields", None) or ()),
        *getattr(options, "list_display", ()),
    }
    names -= {*(getattr(form, "labels", None) or ()), *getattr(options.form, "declared_fields", ())}
    meta = model._meta  # noqa: SLF001 (Django's own word)
    yield from (field for field in (*meta.fields, *meta.many_to_many) if field.name in names)
