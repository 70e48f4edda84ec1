"""The folder of the keys: changed by several at a time, half made, at places that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from tests.integration.secured import Installation
from tests.integration.test_commands import free_ports, told
from tidewire.cli.layout import Layout
from tidewire.cli.up import _secured
from tidewire.identity.grants import EVERYTHING
from tidewire.live.certificates import Signers
from tidewire.live.security import Security, init_security, read_authority, revoke
from tidewire.live.tokens import TOKEN_YEARS_MAX, issue, issued, revoke_tokens
from tidewire.model.errors import BadConfiguration, UnknownName, UsageError

WRITERS, TIMES = 4, 12


@pytest.fixture
def here(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "keys")


def test_several_who_change_it_at_once_lose_nothing(here: Installation) -> None:
    """Processes that make tokens, and revoke them, all at the same time."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tidewire.identity.grants import EVERYTHING\n"
        "from tidewire.live.security import revoke\n"
        "from tidewire.live.tokens import issue\n"
        "folder, who = Path(sys.argv[1]), sys.argv[2]\n"
        "sys.stdin.readline()\n"
        f"for number in range({TIMES}):\n"
        "    _, made = issue(folder, f'{who}.{number}', EVERYTHING, seconds=60)\n"
        "    revoke(folder, [made.id])\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(here.folder), f"w{number}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    try:
        for one in writers:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        for one in writers:
            _, errors = one.communicate(timeout=60)
            assert one.returncode == 0, errors
    finally:
        for one in writers:
            if one.poll() is None:
                one.kill()
                one.wait()
    found = issued(here.folder)
    assert len({one.token.name for one in found}) == WRITERS * TIMES
    assert all(one.is_revoked for one in found)
    assert [file for file in here.folder.iterdir() if ".json." in file.name] == [], "nothing is left lying about"


def test_a_token_lasts_a_life_and_not_longer(here: Installation) -> None:
    with pytest.raises(UsageError, match=f"at most {TOKEN_YEARS_MAX} years"):
        issue(here.folder, "far", EVERYTHING, seconds=9999 * 31_557_600)
    assert issued(here.folder) == []
    folder = here.folder.parent
    said = told("token", "create", "far", "--all", "--expires", "9999y", "--security", "keys", folder=folder, code=2)
    assert said["error"]["code"] == "usage"
    assert told("token", "list", "--security", "keys", folder=folder) == []
    issue(here.folder, "long", EVERYTHING, seconds=TOKEN_YEARS_MAX * 31_557_600)
    (one,) = issued(here.folder)
    later = msgspec.structs.replace(one.token, expires_s=1e15)
    (here.folder / "tokens.json").write_bytes(msgspec.json.encode([later]))
    shown = subprocess.run(
        [sys.executable, "-m", "tidewire", "token", "list", "--security", "keys"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        timeout=30,
    )
    assert "long" in shown.stdout
    assert " ".join(shown.stdout.split()).endswith("publish *, subscribe *, observe, operate")


def test_a_token_that_cannot_be_written_is_not_made(here: Installation) -> None:
    folder = here.folder.parent
    (folder / "file").touch()
    (folder / "there").mkdir()
    for out, says in [("no/such/x.token", "there is no folder"), ("file/x", "there is no folder"), ("there", "folder")]:
        said = told("token", "create", "ann", "--all", "--security", "keys", "--out", out, folder=folder, code=2)
        assert said["error"]["code"] == "configuration"
        assert out in said["error"]["message"]
        assert says in said["error"]["message"]
    assert issued(here.folder) == []
    assert not (folder / "no").exists()
    assert list((folder / "there").iterdir()) == []
    told("token", "create", "ann", "--all", "--security", "keys", "--out", "there/x.token", folder=folder)
    assert (folder / "there/x.token").stat().st_mode & 0o777 == 0o600
    assert len(issued(here.folder)) == 1


def test_nothing_is_left_of_a_token_that_cannot_be_remembered(here: Installation) -> None:
    out = here.folder.parent / "ann.token"
    out.write_text("before")
    (here.folder / "tokens.json").write_text("{")
    with pytest.raises(BadConfiguration, match="damaged"):
        issue(here.folder, "ann", EVERYTHING, seconds=60, out=out)
    assert out.read_text() == "before"
    assert sorted(file.name for file in out.parent.iterdir()) == ["ann.token", "keys"]


def test_who_is_not_there_cannot_be_revoked_and_names_are_told(here: Installation) -> None:
    here.token(name="ann")
    here.token(name="bob")
    with pytest.raises(UnknownName, match="known: ann, bob"):
        revoke_tokens(here.folder, ["eve"])


@pytest.mark.parametrize("missing", ["domain", "tokens.pub"])
def test_what_follows_from_the_rest_is_put_back(here: Installation, missing: str) -> None:
    shown = here.token().token
    assert shown is not None
    before = (here.folder / missing).read_bytes()
    (here.folder / missing).unlink()
    with pytest.raises(BadConfiguration, match="tidewire certificate init"):
        read_authority(here.folder)
    assert told("certificate", "init", "--security", "keys", folder=here.folder.parent)["isNew"] is False
    assert (here.folder / missing).read_bytes() == before
    read_authority(here.folder).identify(shown, None, unix_s=issued(here.folder)[0].token.issued_s)


def test_what_does_not_is_asked_for_and_nothing_is_made_anew(here: Installation) -> None:
    before = {file.name: file.read_bytes() for file in here.folder.iterdir()}
    for gone, says in [
        (["authority.pem"], "no authority.pem"),
        (["tokens.pub", "tokens.key"], "pub is missing"),
    ]:
        for name in gone:
            (here.folder / name).unlink()
        with pytest.raises(BadConfiguration, match=says):
            init_security(here.folder)
        left = {file.name: file.read_bytes() for file in here.folder.iterdir()}
        assert left == {name: data for name, data in before.items() if name not in gone}
        for name in gone:
            (here.folder / name).write_bytes(before[name])
    (here.folder / "authority.pem").unlink()
    here.folder.rename(here.folder.parent / "away")  # as the advice says
    assert init_security(here.folder)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda keys: (keys / "permissions.toml").write_text("[sensor7\n"), "permissions.toml"),
        (lambda keys: (keys / "permissions.toml").write_text('[sensor7]\npublish = "x ="\n'), "sensor7 to publish"),
        (lambda keys: (keys / "revoked.json").write_text("{"), "revoked.json is damaged"),
        (lambda keys: (keys / "head.key").write_text("nothing"), "certificate create head --broker"),
        (lambda keys: (keys / "coordinator.pem").write_text("nothing"), "certificate create coordinator --coordinator"),
    ],
)
def test_up_starts_nothing_with_keys_that_are_of_no_use(tmp_path: Path, spoil: object, says: str) -> None:
    """And the advice, where there is one, is all that is needed."""
    layout = Layout(port=7600, edges=1, state=tmp_path / ".tidewire")
    keys = _secured(layout)
    assert callable(spoil)
    spoil(keys)
    said = told("up", "--secure", "--edges", "1", "--port", str(free_ports(4)), folder=tmp_path, code=2)
    assert said["error"]["code"] == "configuration"
    assert says in said["error"]["message"]
    if "certificate create" in says:
        command = said["error"]["message"].split("with tidewire ")[1].split(" ")
        told(*command, folder=tmp_path)
        _secured(layout)


def test_a_node_whose_key_is_lost_gets_another(tmp_path: Path) -> None:
    layout = Layout(port=7600, edges=1, state=tmp_path, with_data=True)
    keys = _secured(layout)
    (keys / "edge1.key").unlink()
    (keys / "datacluster.key").unlink()
    Security(_secured(layout), name="edge1")
    Security(keys, name="datacluster", of="datacluster")


def test_two_changes_in_one_moment_are_both_seen(here: Installation) -> None:
    """A file system may tell no difference between their times."""
    security = Security(here.folder, name="B0")
    file = here.folder / "revoked.json"
    revoke(here.folder, ["one"])
    stamp = file.stat().st_mtime_ns
    assert security.look()
    revoke(here.folder, ["two"])
    os.utime(file, ns=(stamp, stamp))
    assert security.look()
    assert json.loads(file.read_text()) == ["one", "two"]
    assert list(security.authority.revoked) == ["one", "two"]
    assert not security.look()


def test_another_authority_is_trusted_from_now_on(here: Installation, tmp_path: Path) -> None:
    """And a certificate that was made anew is shown."""
    security = Security(here.folder, name="B0")
    before = security.server, security.client
    assert not security.look()
    here.folder.rename(tmp_path / "old")
    Installation(here.folder)
    assert security.look()
    assert (security.server, security.client) != before
    before = security.server, security.client
    (here.folder / "B0.pem").write_text("nothing")
    with pytest.raises(BadConfiguration, match="of no use"):
        security.look()
    assert (security.server, security.client) == before


def test_what_is_not_understood_is_said_once_until_it_changes(here: Installation) -> None:
    security = Security(here.folder, name="B0")
    file = here.folder / "revoked.json"
    for text in ("{", "[1"):
        file.write_text(text)
        with pytest.raises(BadConfiguration, match="damaged"):
            security.look()
        assert not security.look()
    file.write_text("[]")
    assert security.look()
    file.write_text("[1")
    with pytest.raises(BadConfiguration, match="damaged"):
        security.look()


def test_who_signed_is_known_by_its_key(here: Installation, tmp_path: Path) -> None:
    """Of several the one that did; an authority that is made anew with the key that it had is the same."""
    other = Installation(tmp_path / "another")
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join((one.folder / "authority.pem").read_bytes() for one in (other, here)))
    ours, theirs, all_of_them = (
        Signers(here.folder / "authority.pem"),
        Signers(other.folder / "authority.pem"),
        Signers(both),
    )
    shown = x509.load_pem_x509_certificate((here.folder / "B0.pem").read_bytes())
    assert all_of_them.keys == {**theirs.keys, **ours.keys}
    assert all_of_them.of(shown) == tuple(ours.keys)
    assert theirs.of(shown) == tuple(theirs.keys), "somebody stands between"
    with pytest.raises(BadConfiguration, match="cannot be read"):
        Signers(here.folder / "domain")
