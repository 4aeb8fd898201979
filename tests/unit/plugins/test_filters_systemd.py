"""Quoting for systemd, judged by systemd itself where it is installed."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.sglang.plugins.filter.systemd_environment import systemd_environment
from ansible_collections.blackwell.sglang.plugins.filter.systemd_words import systemd_words


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--tp-size", "--tp-size"),
        ("/models/a b", '"/models/a b"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ('{"a": "b\\c"}', '"{\\"a\\": \\"b\\\\c\\"}"'),
        ("", '""'),
        (8, "8"),
    ],
)
def test_words(word: object, quoted: str) -> None:
    assert systemd_words([word]) == [quoted]


def test_what_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="control character"):
        systemd_words(["a\nb"])
    with pytest.raises(AnsibleFilterError, match="list of words"):
        systemd_words("a b")
    with pytest.raises(AnsibleFilterError, match="several lines"):
        systemd_environment({"A": "1\nB=2"})
    with pytest.raises(AnsibleFilterError, match="no name"):
        systemd_environment({"A B": "1"})


def test_environment_is_sorted_and_escaped() -> None:
    text = systemd_environment({"B": 8, "A": 'x "y" $HOME `z` \\'})
    assert text == 'A="x \\"y\\" \\$HOME \\`z\\` \\\\"\nB="8"\n'


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_reads_the_words(tmp_path: pathlib.Path) -> None:
    words = " ".join(systemd_words(["/bin/true", "a b", "50%", "$x", '"', "\\"]))
    unit = tmp_path / "words.service"
    unit.write_text(f"[Service]\nExecStart={words}\n", encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "words.service" not in done.stderr, done.stderr
