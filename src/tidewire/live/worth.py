"""What is an event worth to a subscription? By its keywords (epeer Eq 8), by a function, or by an expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidewire.congestion.fdcc.expression import Expression
from tidewire.congestion.fdcc.utility import keyword_utility
from tidewire.model.errors import UsageError
from tidewire.model.events import Event
from tidewire.model.values import Value

Judge = Callable[[Event], float | None]
"""From 0 to 1; None: nothing is said of it."""
UtilityLike = str | Callable[[Event], float | None]

KEYWORDS: Final = "keywords"
"""The attribute whose words are an event's keywords, unless others are named."""
_WORD: Final = re.compile(r"\w+")


def words_of(attributes: Mapping[str, Value], names: Iterable[str]) -> dict[str, None]:
    """The words of these attributes, as far as they are texts; upper and lower case are the same."""
    found: dict[str, None] = {}
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str):
            found.update(dict.fromkeys(_WORD.findall(value.lower())))
    return found


def judge_of(keywords: Iterable[str], keywords_in: Iterable[str], utility: UtilityLike | None) -> Judge | None:
    """How a subscription judges; None: it says nothing, or what its broker has set. UsageError if it cannot be."""
    if isinstance(keywords, str):
        raise UsageError("keywords is a list of words")
    interests, names = [word.lower() for word in keywords], tuple(keywords_in)
    if utility is not None and interests:
        raise UsageError("a subscription judges by keywords, or by utility: give one of them")
    if isinstance(utility, str):
        expression = Expression(utility)
        return lambda event: expression(event.attributes)
    if utility is not None:
        return utility
    if interests:
        return lambda event: keyword_utility(interests, words_of(event.attributes, names))
    return None
