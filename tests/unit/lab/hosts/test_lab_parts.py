"""Names, layers and sources of the lab."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from labkit import digest, kernel_repo, names, rootfs
from labkit.layer import Layer

ROOT = Path(__file__).resolve().parents[4]


def test_known_labs_have_networks_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "STATE_ROOT", tmp_path)
    scenarios = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    labs = [names.lab(name) for name in ("demo", *sorted(scenarios))]
    assert len({lab.net for lab in labs}) == len(labs)
    assert all(len(lab.id) <= 15 for lab in labs), "longer than Linux allows for a link"


def test_inventories_name_the_network_of_their_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "STATE_ROOT", tmp_path)
    files = [*(ROOT / "molecule").glob("*/inventory/group_vars/all/scenario.yml")]
    files.append(ROOT / "inventories/lab/group_vars/all/lab.yml")
    for path in files:
        text = path.read_text()
        name, net = (re.search(rf"^{key}: *(\S+)", text, re.MULTILINE) for key in ("lab_name", "lab_net"))
        assert name and net, path
        assert names.lab(name[1]).subnet == f"{net[1]}.0/24", path


def test_a_second_lab_of_the_same_hash_gets_the_next_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "STATE_ROOT", tmp_path)
    first = names.lab("some")
    assert names.claim(names.Lab("other", first.net))
    second = names.lab("some")
    assert second.net != first.net
    assert names.claim(second)
    assert names.lab("some") == second
    assert not names.claim(names.Lab("third", second.net))


def test_bad_names_are_refused() -> None:
    for name in ("", "../x", "Demo", "a" * 41):
        with pytest.raises(ValueError, match="lab name"):
            names.lab(name)


def test_layers_keep_the_modes_below(tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    (lower / "root").mkdir(parents=True)
    (lower / "root").chmod(0o700)
    layer = Layer(tmp_path / "upper", [lower])
    layer.write("/root/.ssh/authorized_keys", "key\n", 0o600)
    assert (tmp_path / "upper/root").stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / "upper/root/.ssh/authorized_keys").stat().st_mode & 0o7777 == 0o600


def test_lab_hosts_carry_the_packages_that_gpu_host_installs() -> None:
    """Else a prepared guest is not prepared, and a bare one downloads what the cache should have."""
    text = (ROOT / "roles/gpu_host/defaults/main.yml").read_text()
    block = re.search(r"^gpu_host_packages:\n((?:  - .*\n)+)", text, re.MULTILINE)
    assert block
    wanted = [line.split("#")[0].strip(" -\n").split(" | ")[0] for line in block[1].splitlines()]
    assert set(wanted) <= {*rootfs.HOST_PACKAGES, *rootfs.BASE_PACKAGES}


def test_the_kernel_commit_depends_on_the_sources_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/a.txt").write_text("a\n")
    monkeypatch.setattr(kernel_repo, "source", lambda: source)
    commits = []
    for cache in ("one", "two"):
        monkeypatch.setenv("SGLANG_LAB_CACHE", str(tmp_path / cache))
        bare = kernel_repo.build() / "sgl-kernel.git"
        argv = ["git", "-C", str(bare), "rev-parse", kernel_repo.VERSION_TAG]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
        commits.append(done.stdout)
    assert commits[0] == commits[1]
    assert len(commits[0].strip()) == 40


def test_digest_sees_every_byte_and_no_byte_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n")
    before = digest.of_trees([tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_bytes(b"x")
    assert digest.of_trees([tmp_path]) == before
    (tmp_path / "a.py").write_text("2\n")
    assert digest.of_trees([tmp_path]) != before
