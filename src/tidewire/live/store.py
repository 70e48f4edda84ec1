"""The log of a broker in its folder: opened, and what was found there told."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

from tidewire._kernel._native import Log, PosixFiles
from tidewire.broker.effects import Note
from tidewire.model.errors import StoreFailed


def open_log(folder: Path) -> tuple[Log, list[Note]]:
    """The log of this broker, and what people should know of it. A damaged part is told, and the rest goes on."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"cannot make {folder.parent}: {error.strerror}") from None
    log = Log(PosixFiles(str(folder)), opened_ns=time_ns())
    is_new, _, _, cut_bytes, cut_file, damage = log.report
    notes = [Note("log opened", {"folder": str(folder), "is new": int(is_new), "bytes": log.disk_bytes})]
    if cut_bytes:
        notes.append(Note("log cut", {"file": cut_file, "bytes": cut_bytes, "why": "written, and never acknowledged"}))
    for file, offset, size, lost in damage:
        ticks = sum(last - first + 1 for _, first, last in lost)
        place: dict[str, str | int | float] = {"file": file, "offset": offset, "bytes": size}
        notes.append(Note("log damaged", place | {"streams": len(lost), "ticks": ticks}))
    return log, notes
