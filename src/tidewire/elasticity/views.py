"""Which slices are there? A view is one configuration of an engine; scaling leads from one view to the next."""

from __future__ import annotations

from typing import Final, NewType

import msgspec

from tidewire.elasticity.selectors import chosen

SliceId = NewType("SliceId", str)
"""The place of a slice in the engine: whoever takes it over after a loss has the same."""

CONTROLLER: Final = SliceId("controller")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The slices of an engine. Numbers of views only grow."""

    number: int
    access: tuple[SliceId, ...]
    matchers: tuple[SliceId, ...]
    exits: tuple[SliceId, ...]
    connections: tuple[SliceId, ...] = (SliceId("c0"),)
    selector: str = "rendezvous"

    def matcher_of(self, subscription: int) -> SliceId:
        """Where this subscription is held."""
        return chosen(self.selector, self.matchers, subscription)

    def exit_of(self, publisher: int) -> SliceId:
        """Where results of this publisher are put together: by publisher, so that its order is kept (I9)."""
        return chosen(self.selector, self.exits, publisher)

    def exits_of(self, publishers: tuple[int, ...]) -> tuple[SliceId, ...]:
        """The same for those of one batch, each once."""
        return tuple(dict.fromkeys(self.exit_of(publisher) for publisher in publishers))

    @property
    def shape(self) -> str:
        """As the paper writes it: 1-3-1."""
        return f"{len(self.access)}-{len(self.matchers)}-{len(self.exits)}"


def both(one: tuple[SliceId, ...], other: tuple[SliceId, ...]) -> tuple[SliceId, ...]:
    """The slices of either, each once."""
    return tuple(dict.fromkeys([*one, *other]))
