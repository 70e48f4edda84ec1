"""Who of those who share a stream gives way, when the stream may not take all? By importance, then by utility.

PDCC says how much a pubend may send (design §3.6). What it may is handed out in rank: who comes first has all that it
would send, and so on until nothing is left. Equals share evenly, but nobody gets more than it would send.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from tidewire.congestion.fdcc.selection import FlowKey


class Claim(msgspec.Struct, frozen=True):
    """What one flow would send into the stream, and its rank."""

    key: FlowKey
    importance: float
    utility: float
    rate_msgs_s: float


def shares(claims: Iterable[Claim], *, limit_msgs_s: float) -> dict[FlowKey, float]:
    """What each may send. Together no more than the limit."""
    left, found = limit_msgs_s, {}
    ranked = sorted(claims, key=lambda claim: (-claim.importance, -claim.utility, claim.key))
    for _, equals in groupby(ranked, key=lambda claim: (claim.importance, claim.utility)):
        evenly = _evenly(list(equals), left)
        found.update(evenly)
        left = max(0.0, left - sum(evenly.values()))
    return found


def _evenly(claims: list[Claim], limit_msgs_s: float) -> dict[FlowKey, float]:
    """The small ones are served in full, and what they leave goes to the others."""
    found, left = {}, limit_msgs_s
    for waiting, claim in enumerate(sorted(claims, key=lambda claim: (claim.rate_msgs_s, claim.key))):
        share = min(claim.rate_msgs_s, left / (len(claims) - waiting))
        found[claim.key] = share
        left -= share
    return found
