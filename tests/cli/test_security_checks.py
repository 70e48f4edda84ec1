"""What `tidewire doctor` says of certificates and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewire.cli.installation_security import security_of
from tidewire.live import certificates
from tidewire.live.security import ensure_certificate, init_security


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    init_security(tmp_path)
    ensure_certificate(tmp_path, "head")
    return tmp_path


def levels(folder: Path) -> list[str]:
    return [finding.level for finding in security_of(folder, None)]


def test_all_is_well(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert levels(keys) == ["ok"]
    assert levels(tmp_path_factory.mktemp("empty")) == ["ok"]


def test_a_key_that_others_can_read(keys: Path) -> None:
    (keys / "head.key").chmod(0o640)
    (problem,) = security_of(keys, None)
    assert problem.level == "problem"
    assert "head.key can be read by others" in problem.message


@pytest.mark.parametrize(("days", "level", "says"), [(-1, "problem", "has ended"), (20, "warning", "ends in 19 days")])
def test_a_certificate_that_ends(keys: Path, days: int, level: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "CERTIFICATE_DAYS", days)
    monkeypatch.setattr(certificates, "_STARTED_AGO", certificates._STARTED_AGO * 1000)
    certificates.make_certificate(keys, "head", of="broker")
    (found,) = security_of(keys, None)
    assert (found.level, says in found.message) == (level, True)


def test_what_cannot_be_read(keys: Path) -> None:
    (keys / "odd.pem").write_text("nothing")
    (keys / "revoked.json").write_text("{")
    assert levels(keys) == ["problem", "problem"]
