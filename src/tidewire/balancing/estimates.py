"""How loaded will a broker be when subscriptions come or go? The formulas of peer §7.2, and nothing but arithmetic.

The thesis's engine is linear in its subscriptions; ours is not. So the matching delay moves along its measured slope,
and where the thesis scales by the number of subscriptions because the delay does, here it scales by the delay: with a
slope of d_m / n these are the thesis's formulas to the letter.
"""

from __future__ import annotations

import msgspec

from tidewire.model.balance_messages import Indices


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

    @property
    def figures(self) -> tuple[float, int, float]:
        """In this order."""
        return self.input_rate, self.subscriptions, self.output_bytes_s


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

    @property
    def indices(self) -> Indices:
        """The three that are balanced."""
        return Indices(self.input_utilisation, self.output_utilisation, self.matching_delay_s)

    def delay_after(self, subscriptions: int) -> float:
        """The matching delay with so many more subscriptions (Eq. 4.7, by the slope)."""
        return Forecast(self).delay(subscriptions)

    def utilisations_after(self, change: Change) -> Utilisations:
        """All four, after a change."""
        forecast, (rate, subscriptions, output) = Forecast(self), change.figures
        used = forecast.input(rate, subscriptions)
        memory = sum(forecast.memory(rate, subscriptions, output)) / self.memory_bytes_max
        return Utilisations(used, forecast.output(output), forecast.cpu(used, subscriptions), memory)

    def after(self, change: Change) -> LoadInfo:
        """What is expected of this broker after a change."""
        forecast, (rate, subscriptions, output) = Forecast(self), change.figures
        input_queue, output_queue, engine = forecast.memory(rate, subscriptions, output)
        return msgspec.structs.replace(
            self,
            input_rate=max(0.0, self.input_rate + rate),
            matching_delay_s=forecast.delay(subscriptions),
            cpu_utilisation=forecast.cpu(forecast.input(rate, subscriptions), subscriptions),
            subscriptions=max(0, self.subscriptions + subscriptions),
            output_bytes_s=max(0.0, self.output_bytes_s + output),
            queued_in_bytes=input_queue,
            queued_out_bytes=output_queue,
            engine_bytes=engine,
        )


class Forecast:
    """What would one broker be like? For those who ask very often: numbers in, numbers out.

    It is asked by what comes in addition, or goes: events per second, subscriptions, bytes per second of output.
    """

    __slots__ = (
        "_backlog",
        "_delay_s",
        "_each_bytes",
        "_engine_bytes",
        "_memory_bytes_max",
        "_output",
        "_output_max",
        "_queued_in",
        "_queued_out",
        "_rate",
        "_slope_s",
    )

    def __init__(self, load: LoadInfo) -> None:
        self._rate = load.input_rate
        self._delay_s = load.matching_delay_s
        self._slope_s = max(0.0, load.matching_slope_s)
        self._output = load.output_bytes_s
        self._output_max = load.output_bytes_s_max
        self._backlog = max(0.0, load.cpu_utilisation - load.input_utilisation)
        self._each_bytes = load.engine_bytes / load.subscriptions if load.subscriptions else load.subscription_bytes
        self._engine_bytes = load.engine_bytes
        self._memory_bytes_max = load.memory_bytes_max
        self._queued_in = load.queued_in_bytes
        self._queued_out = load.queued_out_bytes

    def delay(self, subscriptions: int) -> float:
        """The matching delay (Eq. 4.7, by the slope)."""
        after = self._delay_s + self._slope_s * subscriptions
        return max(0.0, after)

    def input(self, rate: float, subscriptions: int) -> float:
        """The input utilisation (Eq. 4.8)."""
        rate += self._rate
        delay_s = self._delay_s + self._slope_s * subscriptions
        return rate * delay_s if rate > 0.0 and delay_s > 0.0 else 0.0

    def output(self, output: float) -> float:
        """The output utilisation (Eq. 4.9, 4.10)."""
        output += self._output
        return output / self._output_max if output > 0.0 else 0.0

    def cpu(self, used: float, subscriptions: int) -> float:
        """What comes in, and the backlog: it costs less if matching does. With more it only takes longer to drain."""
        after = used + self._backlog * min(1.0, self._ratio(subscriptions)) if self._backlog else used
        return min(1.0, after)

    def memory(self, rate: float, subscriptions: int, output: float) -> tuple[float, float, float]:
        """Input queue, output queues and engine (Eq. 4.13 to 4.15); what nothing is known of stays as it is."""
        queued_in, queued_out = self._queued_in, self._queued_out
        if queued_in and self._rate:
            queued_in *= max(0.0, self._rate + rate) / self._rate * self._ratio(subscriptions)
        if queued_out and self._output:
            queued_out *= max(0.0, self._output + output) / self._output
        return queued_in, queued_out, max(0.0, self._engine_bytes + self._each_bytes * subscriptions)

    def reaches(self, bound: float, rate: float, subscriptions: int, output: float) -> bool:
        """Would one of the utilisations be there?"""
        return self.output(output) >= bound or self.engine_reaches(bound, rate, subscriptions, output)

    def engine_reaches(self, bound: float, rate: float, subscriptions: int, output: float) -> bool:
        """Would input, CPU or memory be there?"""
        used = self.input(rate, subscriptions)
        if used >= bound or self.cpu(used, subscriptions) >= bound:
            return True
        return sum(self.memory(rate, subscriptions, output)) / self._memory_bytes_max >= bound

    def _ratio(self, subscriptions: int) -> float:
        return self.delay(subscriptions) / self._delay_s if self._delay_s else 1.0


def completed(acceptor: LoadInfo, *, by: LoadInfo) -> LoadInfo:
    """An acceptor that has matched nothing yet: its delay follows its slope, if it knows that, else the donor's.

    Otherwise an empty broker would seem to take any number of subscriptions at no cost.
    """
    each = by.engine_bytes / by.subscriptions if by.subscriptions else by.subscription_bytes
    learnt = {"subscription_bytes": acceptor.subscription_bytes or each}
    if acceptor.matching_delay_s > 0.0:
        return msgspec.structs.replace(acceptor, **learnt)
    if acceptor.matching_slope_s > 0.0:
        delay_s = acceptor.matching_slope_s * acceptor.subscriptions
        return msgspec.structs.replace(acceptor, matching_delay_s=delay_s, **learnt)
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
