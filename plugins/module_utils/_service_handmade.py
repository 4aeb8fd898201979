# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that somebody wrote by hand to serve SGLang, found by their files (private to the collection).

One that is down now, or waits between two crashes, shows on no port and on no GPU; at the next boot it takes both. Only
files are read here: systemd is asked about these units in the one call that asks about ours.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import shlex
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_adopt

# Folders for an administrator's own units, the one that wins first; systemd.unit(5).
UNIT_ROOTS = ("/etc/systemd/system", "/usr/local/lib/systemd/system")
# What every unit of the role says in its first line.
_OURS = "# Written by the role blackwell.sglang."
_PREFIXES = "@-:+!|"
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_BETWEEN = set("();<>|&")  # what a shell puts between two commands
_REDIRECTION = re.compile(r"(?<=\s)\d?>{1,2}(?:&\d|\s*[^\s;|&]+)")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_ASSIGNMENT = re.compile(r"^(?:export\s+)?([A-Za-z_]\w*)=(.*)$")
# A start script is a page; what is longer is no start script.
_SCRIPT_BYTES = 65536
# A script that starts a script that starts the engine; more is not followed.
_DEPTH = 3


@dataclasses.dataclass(frozen=True)
class HandMade:
    """A unit that starts the engine. ``words`` are the engine's arguments and may hold secrets; never show them."""

    unit: str
    path: str
    words: tuple[str, ...]
    visible: str | None  # CUDA_VISIBLE_DEVICES, or None where it is not set

    @property
    def port(self) -> int | None:
        """The port that it would listen on; None where its text does not say (a variable set elsewhere)."""
        value = _service_adopt.fields(self.words).get("port", _service_adopt.PORT)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def gpus(self, cards: t.Sequence[t.Mapping[str, t.Any]]) -> list[int]:
        """Indices of the GPUs that it would use, of the host's ``{index, uuid}``; all where its text does not say."""
        return _service_adopt.gpus_of(self.words, self.visible, cards)


def find(wanted: t.Collection[str], roots: t.Sequence[str | pathlib.Path] = UNIT_ROOTS) -> list[HandMade]:
    """Every unit of an administrator that starts the engine, but the role's own and those that it is about to write.

    Args:
        wanted: units of the instances; a file of that name is replaced by the deployment.
        roots: folders of unit files, the one that wins first.
    """
    found: dict[str, HandMade | None] = {}
    for root in map(pathlib.Path, roots):
        for path in sorted(root.glob("*.service")):
            for unit in _units_of(path, roots):
                if unit not in wanted and unit not in found:
                    found[unit] = _read(unit, path, roots)
    return [each for each in found.values() if each is not None]


def shown(
    units: t.Iterable[HandMade], states: t.Mapping[str, t.Mapping[str, t.Any]], cards: t.Sequence[t.Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """Those that run, or start at the next boot, as the modules return them; secrets are left out.

    Args:
        units: what :func:`find` gave.
        states: their states by :func:`_service.unit_states`.
        cards: the host's GPUs, ``{index, uuid}`` each.
    """
    return [
        {
            "unit": each.unit,
            "path": each.path,
            "active": states[each.unit]["active"],
            "sub": states[each.unit]["sub"],
            "enabled": states[each.unit]["enabled"],
            "port": each.port,
            "gpus": each.gpus(cards),
            "adopt": _service_adopt.proposal(list(each.words), _service_adopt.name_of(each.unit), each.visible),
        }
        for each in units
        if states[each.unit]["enabled"] or states[each.unit]["active"] in _service.RUNNING
    ]


def obstacles(each: t.Mapping[str, t.Any], others: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, str]]:
    """Those that would take the port or a GPU of an instance: ``{id, what, fix}`` each.

    Args:
        each: the instance as ``sglang_service_info`` takes it.
        others: what :func:`shown` gave, without those that another obstacle names already.
    """
    found = []
    for other in others:
        shared = [index for index in other["gpus"] if each["gpus"] == "all" or index in each["gpus"]]
        takes = [f"port {other['port']}"] if each.get("port") and other["port"] == each["port"] else []
        takes += ["GPU " + ", ".join(map(str, shared))] if shared else []
        if not takes:
            continue
        when = "starts at boot" if other["enabled"] else f"is {other['active']} ({other['sub']})"
        found.append(
            {
                "id": "hand_made_unit",
                "what": f"{other['unit']}, which was made by hand ({other['path']}), {when} and would take"
                f" {' and '.join(takes)}",
                "fix": f"systemctl disable --now {other['unit']}, or give the instance another args.port or other gpus;"
                f" to adopt it, write in sglang_instances: {other['adopt']}, then systemctl disable --now"
                f" {other['unit']}, then site.yml",
            }
        )
    return found


def _units_of(path: pathlib.Path, roots: t.Sequence[str | pathlib.Path]) -> list[str]:
    """The unit of a file; of a template those that start at boot, since the template itself starts nothing."""
    prefix, at, rest = path.name.partition("@")
    if not at or rest != ".service":
        return [path.name]
    names = {link.name for root in roots for link in pathlib.Path(root).glob(f"*.wants/{prefix}@*.service")}
    return sorted(names - {path.name})


def _read(unit: str, path: pathlib.Path, roots: t.Sequence[str | pathlib.Path]) -> HandMade | None:
    text = _text(path)
    if text is None or text.startswith(_OURS):
        return None
    names = {unit, path.name}
    for root in roots:
        for name in sorted(names):
            for drop_in in sorted(pathlib.Path(root, f"{name}.d").glob("*.conf")):
                text += "\n" + (_text(drop_in) or "")
    instance = unit.rpartition(".")[0].partition("@")[2]
    commands, environment = _service_part(text.replace("%i", instance).replace("%I", instance))
    for command in commands:
        hit = _engine(_expanded(command, environment), environment, _DEPTH)
        if hit is not None:
            return HandMade(unit, str(path), tuple(hit[0]), hit[1])
    return None


def _service_part(text: str) -> tuple[list[list[str]], dict[str, str]]:
    """Commands of ExecStart as words, and the environment, from the text of a unit and its drop-ins."""
    commands: list[str] = []
    environment: dict[str, str] = {}
    section = ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        head = re.match(r"\s*\[(\w+)\]\s*$", line)
        section = head.group(1) if head else section
        key, equals, value = (part.strip() for part in line.partition("="))
        if section != "Service" or not equals:
            continue
        if key == "ExecStart":
            commands = [*commands, value] if value else []  # an empty one takes back those before it
        elif key == "Environment":
            environment |= _assignments(_words(value))
        elif key == "EnvironmentFile":
            lines = (_text(pathlib.Path(value.lstrip("-"))) or "").splitlines()
            environment |= _assignments(word for each in lines for word in _words(each, comments=True))
    return [_words(command.lstrip(_PREFIXES)) for command in commands], environment


def _engine(words: list[str], environment: t.Mapping[str, str], depth: int) -> tuple[list[str], str | None] | None:
    """The engine's arguments and CUDA_VISIBLE_DEVICES of a command, also behind a shell or a script."""
    arguments = _service_adopt.engine_arguments(words)
    if arguments is not None:
        before = _assignments(words[: len(words) - len(arguments)])  # as with env, or of a shell
        return arguments, {**environment, **before}.get("CUDA_VISIBLE_DEVICES")
    if not words or depth == 0:
        return None
    scripts = [words[0]]
    if pathlib.PurePath(words[0]).name in _SHELLS:
        texts = [after for word, after in itertools.pairwise(words) if re.fullmatch(r"-\w*c", word)]
        if texts:
            return _shell(texts[0], environment, depth - 1)
        scripts = [word for word in words[1:] if not word.startswith("-")][:1]
    for script in scripts:
        text = _script(pathlib.Path(script))
        if text is not None:
            return _shell(text, environment, depth - 1)
    return None


def _shell(text: str, environment: t.Mapping[str, str], depth: int) -> tuple[list[str], str | None] | None:
    """The first command of a shell's text that starts the engine; plain assignments before it are followed."""
    known = dict(environment)
    for command in _commands(text):
        words = _expanded(command, known)
        if all(map(_ASSIGNMENT.match, words[1:] if words[0] == "export" else words)):
            known |= _assignments(words)
            continue
        hit = _engine(words[1:] if words[0] == "exec" else words, known, depth)
        if hit is not None:
            return hit
    return None


def _commands(text: str) -> list[list[str]]:
    """The commands of a shell's text as words, without what stands between them or where their output goes."""
    found: list[list[str]] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        command: list[str] = []
        lexer = shlex.shlex(_REDIRECTION.sub(" ", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = [*lexer, ";"]
        except ValueError:  # a quote that is closed in another line
            continue
        for word in words:
            if not set(word) <= _BETWEEN or not word:
                command.append(word)
                continue
            if command:
                found.append(command)
            command = []
    return found


def _script(path: pathlib.Path) -> str | None:
    """The text of a shell script, or None where a file is anything else."""
    if not path.is_absolute():
        return None
    try:
        with path.open("rb") as stream:
            first = stream.read(128).split(b"\n", 1)[0].decode("utf-8", "replace")
            names = {pathlib.PurePath(word).name for word in first.removeprefix("#!").split()}
            if not first.startswith("#!") or not names & set(_SHELLS):
                return None
            stream.seek(0)
            return stream.read(_SCRIPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _expanded(words: t.Iterable[str], environment: t.Mapping[str, str]) -> list[str]:
    """Words with their variables filled in; a variable alone becomes as many words as it holds. Unknown ones stay."""
    found: list[str] = []
    for word in words:
        whole = _VARIABLE.fullmatch(word)
        filled = _VARIABLE.sub(lambda hit: environment.get(hit[1] or hit[2], hit[0]), word)
        found += _words(filled) if whole and whole[2] else [filled]
    return found


def _assignments(words: t.Iterable[str]) -> dict[str, str]:
    return {hit[1]: hit[2] for hit in map(_ASSIGNMENT.match, words) if hit}


def _words(text: str, *, comments: bool = False) -> list[str]:
    try:
        return shlex.split(text, comments=comments)
    except ValueError:  # a quote that is not closed
        return text.split()


def _text(path: pathlib.Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_SCRIPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
