"""How balancing is to behave: every parameter of peer §9.1, and every reading of it. Frozen, checked once.

The patience with one client that moves is the broker's own (``migration_timeout_s``): it holds for every move,
whoever asked for it.
"""

from __future__ import annotations

from math import inf
from typing import Final, Literal

import msgspec

from tidewire.balancing.load import SLOPE_STEP, WINDOW_S
from tidewire.model.errors import BadConfiguration
from tidewire.model.message_fields import SECONDS_MAX, SECONDS_MIN

PRESS_SAMPLES_MAX: Final = 4096

_SECONDS: Final = (
    "load_window_s",
    "local_pie_s",
    "global_pie_s",
    "local_detect_s_min",
    "local_detect_s_max",
    "global_detect_s_min",
    "global_detect_s_max",
    "stabilise_s",
    "stable_window_s",
    "inert_s",
    "press_s",
    "reply_s",
    "done_s",
    "delay_norm_s",
)
_SHARES: Final = ("smoothing", "overload_lower", "overload_upper", "stable_share", "balance_share")
_THRESHOLDS: Final = ("pie_ratio", "pie_delay", "local_ratio", "local_delay", "global_ratio", "global_delay")
_COUNTS: Final = (
    "slope_step",
    "pie_keep_alive_periods",
    "pie_lifetime_periods",
    "global_requests_max",
    "global_idle_periods",
    "choices_max",
    "looks_max",
)


class AsPrinted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the thesis is read to the letter, for comparison; the number of peer §11 stands first."""

    cap_by_donor: bool = False
    """1: the most that may move is bound by the donor's own threshold; nothing then protects the acceptor."""
    stability_by_output: bool = False
    """2: the test against loops compares outputs (Fig. 4.8), in both phases; it refuses nothing that it should."""
    stability_late: bool = False
    """2: the test against loops is made in Phase II alone, as the prose has it: what Phase I takes off the donor's
    input comes back."""
    input_alone: bool = False
    """Input offload minds no other index (§8.4): what makes the acceptor's matching delay too long comes back, and what
    its output cannot bear goes as far as the overload threshold."""
    covering_alone: bool = False
    """Input offload of one who is not overloaded moves nothing but the covering set (§8.4), whatever it leaves."""
    skipped_counts: bool = False
    """3: a count that the test against loops skipped may come out all the same."""
    pick_then_ask: bool = False
    """4: whether it is balanced is asked after a pick, not before: at least one subscription always moves."""
    first_descent: bool = False
    """5: the card is sought down the list until the next one is no better (Fig. 4.2), not the best of all."""
    covered_by_reduced: bool = False
    """6: that search goes down Phase I's lists as they are sorted, by reduced input rate."""
    traffic_then_input: bool = False
    """17: match offload orders by output rate, then extra input rate; not by their sum."""
    filter_by_filter: bool = False
    """Every filter has a card of its own. Ours share one when the samples cannot tell them apart."""
    inert_for_good: bool = False
    """A broker between the two overload thresholds never asks anybody (§5.1), whatever ``inert_s`` is."""
    pie_both: bool = False
    """12: an index must have moved *and* the status be OK or new; no keep-alive, so quiet brokers are forgotten."""


class BalancingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thesis's name stands first in the description of what is the thesis's and called otherwise here.

    Thresholds of ratios are differences of utilisations; thresholds of delays are differences in units of
    ``delay_norm_s``.
    """

    automatic: bool = True
    """Do brokers move clients by themselves? Else they look, tell and accept, and move clients only when an operator
    asks them to (``tidewire rebalance``)."""

    # -- load: peer §3.1 -----------------------------------------------------------------------------------------------

    load_window_s: float = WINDOW_S
    """What rates are measured over."""
    slope_step: int = SLOPE_STEP
    """S: the slope of the matching delay is taken anew when so many subscriptions have come or gone."""
    smoothing: float = 0.75
    """α: the weight of the newest value."""
    delay_norm_s: float = 0.1
    """N_f: differences of delays are divided by it, so that tiny delays trigger nothing."""

    # -- what brokers tell each other: peer §3.3 -----------------------------------------------------------------------

    local_pie_s: float = 30.0
    """Generation period inside a cluster."""
    global_pie_s: float = 60.0
    """Generation period between clusters."""
    pie_ratio: float = 0.025
    """A utilisation must have moved by more than this to be told."""
    pie_delay: float = 0.025
    """The same, for the matching delay."""
    pie_keep_alive_periods: int = 2
    """A broker that is OK is heard of at least this often, whether or not anything moved."""
    pie_lifetime_periods: int = 3
    """What was heard is forgotten after so many periods."""

    # -- detection: peer §5 --------------------------------------------------------------------------------------------

    overload_lower: float = 0.9
    """From here on a broker accepts nothing; no move brings an acceptor so far."""
    overload_upper: float = 0.95
    """Higher overload threshold: beyond this a broker asks for help."""
    local_ratio: float = 0.1
    """Local ratio triggering threshold; also what the test against loops (O9) allows."""
    local_delay: float = 0.1
    global_ratio: float = 0.15
    global_delay: float = 0.15
    local_detect_s_min: float = 20.0
    local_detect_s_max: float = 40.0
    global_detect_s_min: float = 50.0
    global_detect_s_max: float = 70.0
    stabilise_s: float = 30.0
    """Stabilize duration: so long after a session a broker does not begin another one without need."""
    stable_window_s: float = 60.0
    """Over so long the indices are compared with themselves."""
    stable_share: float = 0.05
    """Stabilize percentage: an index that changed by this much is not stable."""
    settles_anew: bool = True
    """Do readings begin anew behind a session? In the thesis they do not: what was before it is smoothed into what is,
    and must be like it (§5.1), so that who gave or got much has settled only when 60 s have passed over it."""
    inert_s: float = 90.0
    """So long a broker between the two overload thresholds waits. Then it balances as one that is OK does, but still
    accepts nothing: else it would stay there for good, however little the others have to do."""
    global_requests_max: int = 3
    """Global load balancing request threshold: so many calls for help end a session between clusters."""
    global_idle_periods: int = 3
    """A session between clusters in which so long nothing has moved is over: balanced sets may never fill."""
    only_overloaded_go_first: bool = False
    """Do brokers in the inert band, which can do nothing, not hold up the others (peer §11 row 27)?"""

    # -- sessions: peer §6, §7.1, §8 -----------------------------------------------------------------------------------

    press_samples: int = 50
    """N: events that are looked at before it is decided what moves."""
    press_s: float = 30.0
    """T: not longer than this, however few have come."""
    match_minds_input: bool = True
    """Does match offload move no more than the acceptor's input allows? The thesis's does not (§8.5)."""
    balance_share: float = 0.005
    """Balance percentage: closer than this is balanced."""
    choices_max: int = 500
    """So many choices that add to the acceptor's input are compared for a pick, the likely best; others follow."""
    looks_max: int = 30_000
    """A decision ends after so many looks at what a choice would do: the rest is for the next session."""
    reply_s: float = 10.0
    """Patience with a broker that was asked."""
    done_s: float = 30.0
    """Patience with the end of a session, beyond that with its clients."""
    handover: Literal["marker", "timed"] = "marker"
    """When does a client let go of the old broker: when a marker has passed it, or after its queues' delay (M4)?"""
    order: Literal["kept", "loose"] = "kept"
    """Does a client hold back what the new broker delivers while the old one's backlog drains (M5a)?"""
    as_printed: AsPrinted = AsPrinted()

    def __post_init__(self) -> None:
        for name in _SECONDS:
            if not SECONDS_MIN <= getattr(self, name) <= SECONDS_MAX:
                self._refuse(name, f"it must be from {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds")
        for name in _SHARES:
            if not 0 < getattr(self, name) <= 1:
                self._refuse(name, "it is a share: above 0, at most 1")
        for name in _THRESHOLDS:
            if not 0 < getattr(self, name) < inf:
                self._refuse(name, "it must be a number above 0")
        for name in _COUNTS:
            if not getattr(self, name) >= 1:
                self._refuse(name, "it must be at least 1")
        self._check_together()

    def _check_together(self) -> None:
        if not 1 <= self.press_samples <= PRESS_SAMPLES_MAX:
            self._refuse("press_samples", f"it must be from 1 to {PRESS_SAMPLES_MAX}")
        if self.overload_upper < self.overload_lower:
            self._refuse("overload_upper", f"it must be at least overload_lower = {self.overload_lower}")
        for scope in ("local", "global"):
            least = getattr(self, f"{scope}_detect_s_min")
            if getattr(self, f"{scope}_detect_s_max") < least:
                self._refuse(f"{scope}_detect_s_max", f"it must be at least {scope}_detect_s_min = {least}")
        if self.pie_keep_alive_periods >= self.pie_lifetime_periods:
            lifetime = f"pie_lifetime_periods = {self.pie_lifetime_periods}"
            self._refuse("pie_keep_alive_periods", f"it must be below {lifetime}, or quiet brokers are forgotten")

    def warnings(self, *, clusters: int) -> list[str]:
        """What is unwise about these settings in a network of so many clusters (peer D7).

        BadConfiguration if it can never come to rest: clusters that are balanced inside would still differ outside.
        """
        found = []
        for kind in ("ratio", "delay"):
            local, between = getattr(self, f"local_{kind}"), getattr(self, f"global_{kind}")
            if between >= local:
                continue
            wish = f"it must be at least local_{kind} = {local}, or balanced clusters do not balance each other"
            if clusters > 1:
                self._refuse(f"global_{kind}", wish)
            found.append(f"global_{kind} = {between}: with more than one cluster {wish}")
        return found

    def _refuse(self, name: str, reason: str) -> None:
        raise BadConfiguration(f"{name} = {getattr(self, name)}: {reason}")
