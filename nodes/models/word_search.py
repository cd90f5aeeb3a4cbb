"""Search for names by their words: an index, and the query that uses it."""

import re
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import Func, QuerySet


class Words(Func):
    """The words of a text, in lower case: `docs.example, nightly` has docs, example and nightly."""

    template = "to_tsvector('simple'::regconfig, regexp_replace(%(expressions)s, '[^[:alnum:]]+', ' ', 'g'))"
    arity = 1
    output_field = SearchVectorField()


def words_in(text: str) -> list[str]:
    """Return the words of a text, split as in `Words`."""
    return re.findall(r"[^\W_]+", text)


def named_with(queryset: QuerySet[Any], words: list[str]) -> QuerySet[Any]:
    """Return the rows whose names match all of these words: a word matches if a word of the name begins with it."""
    query = " & ".join(f"{word}:*" for word in words)
    found = queryset.alias(words_of_name=Words("name"))
    named: QuerySet[Any] = found.filter(words_of_name=SearchQuery(query, config="simple", search_type="raw"))
    return named
