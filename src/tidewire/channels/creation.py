"""What does it take to create a channel? Its text, read and checked, its kind, and a plan that comes to an end."""

from __future__ import annotations

import msgspec

from tidewire.channels.declaration import declare
from tidewire.channels.estimates import Workload
from tidewire.channels.explain import explain_plan
from tidewire.channels.kinds import Member, member_of_kind
from tidewire.channels.plans import Plan, choose_plan
from tidewire.channels.queries import Declaration
from tidewire.channels.schemas import Catalog


class Channel(msgspec.Struct, frozen=True):
    """A channel that can be carried out."""

    declaration: Declaration
    member: Member
    plan: Plan

    def explain(self) -> str:
        """How, and at what cost, in words."""
        return explain_plan(self.declaration, self.member, self.plan)


def create_channel(text: str, catalog: Catalog, workload: Workload | None = None) -> Channel:
    """The channel that the text declares; an error says what is wrong with it, where, and what to do."""
    declaration = declare(text, catalog)
    member = member_of_kind(declaration)
    return Channel(declaration, member, choose_plan(member.kind, catalog, workload))
