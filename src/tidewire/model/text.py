"""Text that others wrote, safe to show: to a terminal, and in a log of one line for each thing.

An escape sequence can clear a screen, change a title or type for whoever looks on; a line break can forge a line of a
log; a mark of direction can turn the rest around. They are shown as what they are: ``\\x1b``, ``\\n``, ``\\u202e``.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

_JOINERS: Final = "\u200c\u200d"
"""Some scripts and signs cannot be written without them, and they only join what stands beside them."""
_SUSPECT: Final = re.compile(r"[^\x20-\x7e]")


def visible(text: str, *, keep: str = "") -> str:
    """The text, with everything that is no letter, sign or space told by its code; save what is to be kept."""
    return _SUSPECT.sub(lambda found: _shown(found[0], keep), text)


def _shown(character: str, keep: str) -> str:
    if character.isprintable() or character in keep or character in _JOINERS or category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


_UNSEEN: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible_json(text: str) -> str:
    """A JSON document that says the same, with the control characters escaped that JSON may leave as they are."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
