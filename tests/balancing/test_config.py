"""The settings of balancing (peer §9.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.model.errors import BadConfiguration


def test_the_defaults_are_those_of_the_thesis() -> None:
    """peer §9.1, Table 5.2."""
    config = BalancingConfig()
    assert (config.pie_ratio, config.pie_delay, config.local_pie_s, config.global_pie_s) == (0.025, 0.025, 30, 60)
    assert (config.press_samples, config.press_s) == (50, 30)
    assert (config.overload_lower, config.overload_upper) == (0.9, 0.95)
    assert (config.local_ratio, config.local_delay, config.global_ratio, config.global_delay) == (0.1, 0.1, 0.15, 0.15)
    assert (config.stabilise_s, config.stable_share, config.stable_window_s) == (30, 0.05, 60)
    assert (config.delay_norm_s, config.balance_share, config.smoothing) == (0.1, 0.005, 0.75)
    assert (config.local_detect_s_min, config.local_detect_s_max) == (20, 40)
    assert (config.global_detect_s_min, config.global_detect_s_max) == (50, 70)
    assert (config.global_requests_max, config.pie_lifetime_periods, config.slope_step) == (3, 3, 50)


@pytest.mark.parametrize("kind", ["ratio", "delay"])
def test_global_thresholds_below_the_local_ones(kind: str) -> None:
    """peer G20, D7: refused with two clusters, a warning with one."""
    wide: dict[str, Any] = {f"local_{kind}": 0.2}
    config = BalancingConfig(**wide)
    with pytest.raises(BadConfiguration, match=rf"global_{kind} = 0.15: it must be at least local_{kind} = 0.2"):
        config.warnings(clusters=2)
    (warning,) = config.warnings(clusters=1)
    assert warning.startswith(f"global_{kind} = 0.15")
    assert BalancingConfig().warnings(clusters=2) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"press_s": 0.0},
        {"local_pie_s": float("nan")},
        {"smoothing": 1.5},
        {"overload_lower": 0.0},
        {"local_ratio": float("inf")},
        {"pie_delay": -0.1},
        {"press_samples": 0},
        {"slope_step": 0},
        {"overload_upper": 0.8},
        {"local_detect_s_max": 10.0},
        {"global_detect_s_min": 80.0},
        {"pie_keep_alive_periods": 3},
    ],
)
def test_what_cannot_be_right_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadConfiguration) as refused:
        BalancingConfig(**wrong)
    (name,) = wrong
    assert name.rsplit("_", 1)[0] in str(refused.value)
