"""The documents tell what is: every setting with its default, and stories that hold."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tidewire.balancing.config import AsPrinted, BalancingConfig
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.load import Load
from tidewire.balancing.record import Errors
from tidewire.broker.balance_documents import BalanceStatus, NextStep
from tidewire.broker.channels import ChannelsStatus
from tidewire.broker.config import BrokerConfig
from tidewire.broker.decisions import Decision
from tidewire.broker.shortage_status import FlowStatus, ShortageStatus
from tidewire.broker.status import (
    BrokerStatus,
    Host,
    LogStatus,
    LossStatus,
    NeighbourStatus,
    PubendStatus,
    SlowConsumer,
)
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.live.settings import CoordinatorConfig
from tidewire.placement.config import StageConfig
from tidewire.simulator.scenario import Scenario
from tidewire.traffic.config import ClassConfig, TrafficConfig

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src" / "tidewire"
ROOMS = ("broker", "balancing", "live")
GIVEN_BY_THE_COMMAND = {"broker": "broker-PORT", "address": "127.0.0.1:7600"}


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (BrokerConfig, "A broker"),
        (CoordinatorConfig, "A coordinator"),
        (StageConfig, "What the coordinator balances"),
        (CongestionConfig, "Congestion control"),
        (FdccConfig, "Shortage"),
        (BalancingConfig, "Balancing"),
        (AsPrinted, "Balancing, as printed"),
        (DrdConfig, "Balancing, where the head decides"),
        (TrafficConfig, "Traffic classes"),
        (ClassConfig, "A traffic class"),
    ],
)
def test_every_setting_is_documented_with_its_default(kind: type[msgspec.Struct], heading: str) -> None:
    text = (DOCS / "reference" / "configuration.md").read_text()
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`|none) \|", section, re.MULTILINE))
    is_broker = kind is BrokerConfig
    real = {
        field.encode_name: _shown(GIVEN_BY_THE_COMMAND.get(field.name, field.default) if is_broker else field.default)
        for field in msgspec.structs.fields(kind)
    }
    tables = ("congestion", "balance", "drd", "fdcc", "traffic")
    real |= {"neighbours": "[]", **dict.fromkeys(tables, "{}")} if is_broker else {}
    real |= {"balance": "{}", "locations": "{}"} if kind is CoordinatorConfig else {}
    real |= {"as_printed": "{}"} if kind is BalancingConfig else {}
    real |= {"classes": "[]"} if kind is TrafficConfig else {}
    real |= {"weights": "[0.3, 0.7]"} if kind is DrdConfig else {}
    assert told == real


def _shown(default: object) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (BrokerStatus, "A broker"),
        (ChannelsStatus, "Channels"),
        (ShortageStatus, "Shortage"),
        (FlowStatus, "A limited publisher"),
        (NeighbourStatus, "A neighbour"),
        (SlowConsumer, "A slow consumer"),
        (LogStatus, "The log"),
        (LossStatus, "A loss"),
        (PubendStatus, "A pubend"),
        (Decision, "A decision"),
        (Host, "The process"),
        (Load, "The load"),
        (BalanceStatus, "Balancing"),
        (Errors, "Errors of prediction"),
        (NextStep, "The next step"),
    ],
)
def test_every_field_of_a_status_is_documented(kind: type[msgspec.Struct], heading: str) -> None:
    text = (DOCS / "reference" / "status.md").read_text()
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE)) == kind.__struct_fields__


def test_every_kind_of_decision_is_documented() -> None:
    """Those that brokers, their balancers and their driver note."""
    section = (DOCS / "reference" / "status.md").read_text().split("## What decisions there are\n")[1]
    code = "".join(file.read_text() for room in ROOMS for file in (SOURCE / room).rglob("*.py"))
    assert set(re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)) == set(re.findall(r"\bNote\(\s*\"(.+?)\"", code))


def test_the_story_of_the_guide_holds() -> None:
    text = (DOCS / "how-to" / "simulate.md").read_text()
    (story,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert Scenario(story).play() == []
