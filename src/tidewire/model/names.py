"""What may an attribute be called? Anything but nothing, within a bound: the kernel keeps a name's size in one byte."""

from __future__ import annotations

from typing import Final

from tidewire.model.errors import BadAttributeName

NAME_BYTES_MAX: Final = 255


def refuse_bad_name(name: str) -> None:
    """Raise BadAttributeName if no event can have an attribute of this name."""
    if not name:
        raise BadAttributeName("an attribute name is empty")
    try:
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        raise BadAttributeName(f"the attribute name {name[:80]!a} has a lone surrogate in it") from None
    if size > NAME_BYTES_MAX:
        raise BadAttributeName(
            f"the attribute name {name[:80]!r}… has {size} bytes; at most {NAME_BYTES_MAX} are allowed"
        )
