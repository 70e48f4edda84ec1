"""How loaded will a broker be when subscriptions come or go? The formulas of peer §7.2, and nothing but arithmetic.

The thesis's engine is linear in its subscriptions; ours is not. So the matching delay moves along its measured slope,
and where the thesis scales by the number of subscriptions because the delay does, here it scales by the delay: with a
slope of d_m / n these are the thesis's formulas to the letter.
"""

from __future__ import annotations

import msgspec


class Utilisations(msgspec.Struct, frozen=True):
    """The four ratios that can be overloaded (peer §3.1)."""

    input: float
    output: float
    cpu: float
    memory: float

    def reach(self, bound: float) -> bool:
        """Is one of them there?"""
        return self.input >= bound or self.output >= bound or self.cpu >= bound or self.memory >= bound


class Change(msgspec.Struct, frozen=True):
    """What comes to a broker; below 0, what goes."""

    input_rate: float = 0.0
    subscriptions: int = 0
    output_bytes_s: float = 0.0


class LoadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker tells another of its load (peer §6.2, step 2'), and what is expected of it."""

    input_rate: float
    """Events per second, i_r."""
    matching_delay_s: float
    """Per event, d_m."""
    matching_slope_s: float
    """How much the matching delay grows with one more subscription. Below 0 it is an error of measurement."""
    cpu_utilisation: float
    """The engine's busy share. Above the input utilisation, the rest is spent on a backlog."""
    subscriptions: int
    """In the engine, control's own among them, n."""
    output_bytes_s: float
    """o_u."""
    output_bytes_s_max: float
    """What the network takes, o_t."""
    queued_in_bytes: float = 0.0
    queued_out_bytes: float = 0.0
    engine_bytes: float = 0.0
    memory_bytes_max: float = float("inf")
    """m_t."""
    subscription_bytes: float = 0.0
    """What a subscription takes in the engine, where there is none yet to learn it from."""

    @property
    def input_utilisation(self) -> float:
        """I_r (Eq. 3.1, 4.17)."""
        return self.input_rate * self.matching_delay_s

    @property
    def output_utilisation(self) -> float:
        """O_r (Eq. 3.3, 4.18)."""
        return self.output_bytes_s / self.output_bytes_s_max

    @property
    def memory_utilisation(self) -> float:
        """M_r (Eq. 4.11, 4.12)."""
        return (self.queued_in_bytes + self.queued_out_bytes + self.engine_bytes) / self.memory_bytes_max

    @property
    def utilisations(self) -> Utilisations:
        """All four, as they are."""
        return Utilisations(
            self.input_utilisation, self.output_utilisation, self.cpu_utilisation, self.memory_utilisation
        )

    def delay_after(self, subscriptions: int) -> float:
        """The matching delay with so many more subscriptions (Eq. 4.7, by the slope)."""
        return max(0.0, self.matching_delay_s + max(0.0, self.matching_slope_s) * subscriptions)

    def input_after(self, change: Change) -> float:
        """The input utilisation after a change (Eq. 4.8)."""
        return max(0.0, self.input_rate + change.input_rate) * self.delay_after(change.subscriptions)

    def output_after(self, change: Change) -> float:
        """The output utilisation after a change (Eq. 4.9, 4.10)."""
        return max(0.0, self.output_bytes_s + change.output_bytes_s) / self.output_bytes_s_max

    def utilisations_after(self, change: Change) -> Utilisations:
        """All four, after a change."""
        used = self.input_after(change)
        memory = sum(self._memory_after(change)) / self.memory_bytes_max
        return Utilisations(used, self.output_after(change), self._cpu_after(change, used), memory)

    def after(self, change: Change) -> LoadInfo:
        """What is expected of this broker after a change."""
        input_queue, output_queue, engine = self._memory_after(change)
        return LoadInfo(
            input_rate=max(0.0, self.input_rate + change.input_rate),
            matching_delay_s=self.delay_after(change.subscriptions),
            matching_slope_s=self.matching_slope_s,
            cpu_utilisation=self._cpu_after(change, self.input_after(change)),
            subscriptions=max(0, self.subscriptions + change.subscriptions),
            output_bytes_s=max(0.0, self.output_bytes_s + change.output_bytes_s),
            output_bytes_s_max=self.output_bytes_s_max,
            queued_in_bytes=input_queue,
            queued_out_bytes=output_queue,
            engine_bytes=engine,
            memory_bytes_max=self.memory_bytes_max,
            subscription_bytes=self.subscription_bytes,
        )

    def _delay_ratio(self, subscriptions: int) -> float:
        return self.delay_after(subscriptions) / self.matching_delay_s if self.matching_delay_s else 1.0

    def _cpu_after(self, change: Change, input_utilisation: float) -> float:
        """What comes in, and the backlog: it costs less if matching does. With more it only takes longer to drain."""
        backlog = max(0.0, self.cpu_utilisation - self.input_utilisation)
        return min(1.0, input_utilisation + backlog * min(1.0, self._delay_ratio(change.subscriptions)))

    def _memory_after(self, change: Change) -> tuple[float, float, float]:
        """Input queue, output queues and engine (Eq. 4.13 to 4.15); what nothing is known of stays as it is."""
        input_queue, output_queue = self.queued_in_bytes, self.queued_out_bytes
        if input_queue and self.input_rate:
            growth = max(0.0, self.input_rate + change.input_rate) / self.input_rate
            input_queue *= growth * self._delay_ratio(change.subscriptions)
        if output_queue and self.output_bytes_s:
            output_queue *= max(0.0, self.output_bytes_s + change.output_bytes_s) / self.output_bytes_s
        each = self.engine_bytes / self.subscriptions if self.subscriptions else self.subscription_bytes
        return input_queue, output_queue, max(0.0, self.engine_bytes + each * change.subscriptions)


def completed(acceptor: LoadInfo, *, by: LoadInfo) -> LoadInfo:
    """An acceptor that has matched nothing yet does not know what matching costs it: as much as the donor, so far.

    Otherwise an empty broker would seem to take any number of subscriptions at no cost.
    """
    each = by.engine_bytes / by.subscriptions if by.subscriptions else by.subscription_bytes
    learnt = {"subscription_bytes": acceptor.subscription_bytes or each}
    if acceptor.matching_delay_s > 0.0:
        return msgspec.structs.replace(acceptor, **learnt)
    slope_s = max(0.0, by.matching_slope_s)
    return msgspec.structs.replace(
        acceptor,
        matching_slope_s=slope_s,
        matching_delay_s=by.delay_after(acceptor.subscriptions - by.subscriptions),
        **learnt,
    )


def delay_difference(ours_s: float, theirs_s: float, *, norm_s: float) -> float:
    """How much longer is the first delay, in units of ``norm_s`` (Eq. 3.5)?

    The denominator is fixed: tiny delays trigger nothing, huge ones hide no gap.
    """
    return (ours_s - theirs_s) / norm_s
