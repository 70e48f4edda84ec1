"""The cable cut in virtual time: the machines that serve users, over links that are modelled."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidewire.benchmarks.cut import KINDS, ClassResult, Plan, RunResult, TrafficKind, class_result, judge
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.simulator.agenda import SECOND_NS
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.world import World

HEAD: Final = "head"


class CutWorld:
    """One run."""

    def __init__(self, plan: Plan, *, is_on: bool, tell: Tell = tell_nobody) -> None:
        self._plan = plan
        self._is_on = is_on
        self._tell = tell
        self.world = World(f"cut {plan.seed}", engine="kernel")
        self.world.network.packet_bytes = 1460
        self.world.network.window_bytes = 64 << 10
        self.world.add_broker(HEAD, **plan.settings("head", is_on=is_on))
        self._edges = [f"edge{i + 1}" for i in range(plan.edges)]
        for edge in self._edges:
            self.world.add_broker(edge, **plan.settings("edge", is_on=is_on))
            self.world.link(edge, HEAD, latency_ms=5.0, mbps=plan.free_bytes_s * 8 / 1e6)
        self.world.run(2.0)
        self._subscribers: dict[str, list[ClientHost]] = {kind.name: [] for kind in KINDS}
        self._publishers: dict[str, list[ClientHost]] = {kind.name: [] for kind in KINDS}
        self._offered: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        for kind in KINDS:
            for edge in self._edges:
                for i in range(self._plan.subscribers):
                    client = self.world.add_client(f"{kind.name}-{edge}-{i}", edge)
                    client.judge = judge
                    client.subscribe(1, f"class = '{kind.name}'")
                    self._subscribers[kind.name].append(client)
            for i in range(kind.publishers):
                client = self.world.add_client(f"{kind.name}-{i}", HEAD)
                client.advertise(1)
                self._publishers[kind.name].append(client)
        self.world.run(3.0)
        for kind in KINDS:
            every_ns = round(SECOND_NS * kind.publishers / (kind.share * self._plan.msgs_s))
            for i, client in enumerate(self._publishers[kind.name]):
                start_ns = self.world.agenda.now_ns + every_ns * i // kind.publishers + 1
                self.world.agenda.at(start_ns, partial(self._publish, kind, client, every_ns, 1))

    def _publish(self, kind: TrafficKind, client: ClientHost, every_ns: int, number: int) -> None:
        self._offered[client.name] = self._offered.get(client.name, 0) + 1
        client.publish(self._plan.event(kind, number))
        self.world.agenda.after(every_ns, partial(self._publish, kind, client, every_ns, number + 1))

    def _shape(self, bytes_s: float) -> None:
        for edge in self._edges:
            self.world.network.path(edge, HEAD).set(mbps=bytes_s * 8 / 1e6)

    def _run(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.world.run(1.0)
            self._tell(f"{'with' if self._is_on else 'without'} FDCC, {self.world.agenda.now_s:.0f} s")

    def run(self) -> RunResult:
        """All of it."""
        plan, agenda = self._plan, self.world.agenda
        self._run(plan.before_s)
        cut_ns, held = agenda.now_ns, self._held()
        offered = dict(self._offered)
        self._shape(plan.capacity_bytes_s)
        self._run(plan.cut_s)
        mended_ns = agenda.now_ns
        counts = {
            kind.name: (
                sum(self._offered[one.name] - offered[one.name] for one in self._publishers[kind.name]),
                sum(one.held_back for one in self._publishers[kind.name]) - held[kind.name],
            )
            for kind in KINDS
        }
        self._shape(plan.free_bytes_s)
        self._run(plan.after_s)
        classes = {kind.name: self._class(kind, cut_ns, mended_ns, *counts[kind.name]) for kind in KINDS}
        head = self.world.brokers[HEAD].node
        assert head is not None
        status = head.core.shortage.status()
        return RunResult(
            is_on=self._is_on,
            classes=classes,
            limited_after_s=self._first_limit_s(cut_ns),
            lifted_after_s=self._lifted_s(mended_ns),
            triggers=0 if status is None else status.triggers,
            feedback_msgs_s=self._heard().get("Opinions", 0) / (agenda.now_ns / 1e9),
            control_share=self._control_share(),
        )

    def _held(self) -> dict[str, int]:
        return {name: sum(one.held_back for one in clients) for name, clients in self._publishers.items()}

    def _class(self, kind: TrafficKind, cut_ns: int, mended_ns: int, offered: int, held_back: int) -> ClassResult:
        """Of what was published while the cable was cut, and of what of that came at all."""
        came = [
            ((receipt.time_ns - receipt.delay_ns - cut_ns) / 1e9, receipt.delay_ns / 1e9)
            for client in self._subscribers[kind.name]
            for receipt in client.receipts
            if cut_ns <= receipt.time_ns - receipt.delay_ns < mended_ns
        ]
        sent = offered - held_back
        expected = sent * len(self._subscribers[kind.name])
        return class_result(kind, came, offered=offered, held_back=held_back, expected=expected)

    def _told(self) -> list[tuple[int, object]]:
        """When publishers heard of limits, and what."""
        return [
            (at_ns, told.facts["events/s"])
            for clients in self._publishers.values()
            for one in clients
            for at_ns, told in one.told
            if told.what == "limit"
        ]

    def _first_limit_s(self, cut_ns: int) -> float | None:
        times = [at_ns for at_ns, limit in self._told() if limit != "any" and at_ns >= cut_ns]
        return (min(times) - cut_ns) / 1e9 if times else None

    def _lifted_s(self, mended_ns: int) -> float | None:
        if any(one.core.valuing.restraint and one.core.valuing.restraint.limits for one in self._all_publishers()):
            return None
        times = [at_ns for at_ns, limit in self._told() if limit == "any"]
        return (max(times) - mended_ns) / 1e9 if times else None

    def _all_publishers(self) -> list[ClientHost]:
        return [one for clients in self._publishers.values() for one in clients]

    def _heard(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for host in self.world.brokers.values():
            status = None if host.node is None else host.node.core.shortage.status()
            for name, count in ({} if status is None else status.messages_heard).items():
                found[name] = found.get(name, 0) + count
        return found

    def _control_share(self) -> float:
        control = sum(self._heard().values())
        events = sum(host.node.engine.work().events for host in self.world.brokers.values() if host.node is not None)
        return control / max(1, control + events)
