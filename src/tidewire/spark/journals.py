"""A book in a store where a file can only be put whole: all of it now and then, and each change since.

Each life of a data cluster writes into a folder of its own, and begins it with all that the last one knew. So what one
that is thought to be dead still writes changes nothing.
"""

from __future__ import annotations

from typing import Final

from tidewire.model.errors import StoreDamaged
from tidewire.spark.places import Place

CHANGES_MAX: Final = 500
"""So many changes may be behind the last whole book."""
_DIGITS: Final = 12
_WHOLE, _CHANGE = ".whole", ".change"


class Journal:
    """That of one life."""

    def __init__(self, place: Place, life: int) -> None:
        self._place = place
        self._life = life
        self._folder = place / f"{life:0{_DIGITS}d}"
        self._number = 0
        self._since = 0

    def recalled(self) -> tuple[bytes | None, list[bytes]]:
        """What the last life before this one left: the book, and the changes to it in their order."""
        for life in sorted(self._lives(), reverse=True):
            folder = self._place / f"{life:0{_DIGITS}d}"
            names = folder.names() if life < self._life else []
            wholes = [_number(name) for name in names if name.endswith(_WHOLE)]
            if wholes:
                return self._read(folder, max(wholes), names)
        return None, []

    def _read(self, folder: Place, whole: int, names: list[str]) -> tuple[bytes, list[bytes]]:
        later = sorted(_number(name) for name in names if name.endswith(_CHANGE) and _number(name) > whole)
        if later != list(range(whole + 1, whole + 1 + len(later))):
            raise StoreDamaged(f"in the book of channels in {folder} a change is missing behind number {whole}")
        try:
            return _file(folder, whole, _WHOLE).read(), [_file(folder, one, _CHANGE).read() for one in later]
        except FileNotFoundError as error:
            raise StoreDamaged(f"the book of channels in {folder} has changed while it was read: {error}") from None

    def begin(self, whole: bytes) -> None:
        """With what is known now; earlier lives are over."""
        self.replace(whole)
        for life in self._lives():
            if life < self._life:
                (self._place / f"{life:0{_DIGITS}d}").delete_all()

    def add(self, change: bytes) -> None:
        """It is there when this returns."""
        _file(self._folder, self._number + 1, _CHANGE).write(change)
        self._number += 1
        self._since += 1

    @property
    def is_long(self) -> bool:
        """Is it time for a whole book?"""
        return self._since >= CHANGES_MAX

    def replace(self, whole: bytes) -> None:
        """In the place of all changes up to now."""
        _file(self._folder, self._number, _WHOLE).write(whole)
        self._since = 0
        for name in self._folder.names():
            if _number(name) < self._number or name == f"{self._number:0{_DIGITS}d}{_CHANGE}":
                (self._folder / name).delete()

    def _lives(self) -> list[int]:
        return [int(name) for name in self._place.names() if name.isdigit()]


def _file(folder: Place, number: int, suffix: str) -> Place:
    return folder / f"{number:0{_DIGITS}d}{suffix}"


def _number(name: str) -> int:
    return int(name.partition(".")[0])
