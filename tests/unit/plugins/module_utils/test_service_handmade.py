"""Units that somebody wrote by hand: found by their files, with port and GPUs, whatever starts the engine in them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _service_adopt,
    _service_handmade,
    _service_obstacles,
    _service_plan,
)

CARDS = [{"index": index, "uuid": f"GPU-{index}aaaa", "used_mib": 0, "total_mib": 97887} for index in range(8)]
ENGINE = "/opt/venv/bin/python -m sglang.launch_server --model-path /models/X"


def service(*lines: str) -> str:
    return "\n".join(
        ["[Unit]", "Description=an LLM", "[Service]", *lines, "[Install]", "WantedBy=multi-user.target", ""]
    )


def found(folder: pathlib.Path, *wanted: str) -> list[_service_handmade.HandMade]:
    return _service_handmade.find(wanted, [folder])


SEEN: list[tuple[str, tuple[str, ...], int | None, list[int]]] = [
    ("nothing named", (f"ExecStart={ENGINE}",), 30000, [0]),
    ("port and ranks", (f"ExecStart={ENGINE} --port 31000 --tp 4",), 31000, [0, 1, 2, 3]),
    ("the flags of the help", (f"ExecStart={ENGINE} --port=31000 --tensor-parallel-size=2",), 31000, [0, 1]),
    (
        "continued, with a prefix",
        (r"ExecStart=-/opt/venv/bin/python \ ".rstrip(), "  -m sglang.launch_server \\", "  --port 31000"),
        31000,
        [0],
    ),
    ("stages and copies", (f"ExecStart={ENGINE} --tp-size 2 --pp-size 2 --dp-size 2",), 30000, list(range(8))),
    ("copies within the ranks", (f"ExecStart={ENGINE} --tp 2 --dp 2 --enable-dp-attention",), 30000, [0, 1]),
    ("a first card", (f"ExecStart={ENGINE} --tp 2 --base-gpu-id 4 --gpu-id-step 2",), 30000, [4, 6]),
    ("chosen cards", ("Environment=A=b CUDA_VISIBLE_DEVICES=5,6,7", f"ExecStart={ENGINE} --tp 2"), 30000, [5, 6]),
    ("cards by uuid", ("Environment=CUDA_VISIBLE_DEVICES=GPU-3a", f"ExecStart={ENGINE}"), 30000, [3]),
    (
        "cards that nobody knows",
        ("Environment=CUDA_VISIBLE_DEVICES=MIG-1", f"ExecStart={ENGINE}"),
        30000,
        list(range(8)),
    ),
    ("no cards", ("Environment=CUDA_VISIBLE_DEVICES=", f"ExecStart={ENGINE}"), 30000, []),
    ("by env", (f"ExecStart=/usr/bin/env CUDA_VISIBLE_DEVICES=2 {ENGINE}",), 30000, [2]),
    ("sglang serve", ("ExecStart=/opt/venv/bin/sglang serve --model-path /models/X --port 31000",), 31000, [0]),
    ("the package", ("ExecStart=python3 -m sglang serve --model-path /models/X --tp 2",), 30000, [0, 1]),
    ("variables", ("Environment=P=31000 'O=--tp 2'", f"ExecStart={ENGINE} --port ${{P}} $O"), 31000, [0, 1]),
    ("a variable of elsewhere", (f"ExecStart={ENGINE} --port $NOWHERE",), None, [0]),
    (
        "a shell",
        (f"ExecStart=/bin/bash -lc 'cd /srv && CUDA_VISIBLE_DEVICES=1 exec {ENGINE} --port 31000 >> /srv/x 2>&1'",),
        31000,
        [1],
    ),
    ("a container", (f"ExecStart=docker run --gpus all lmsys {ENGINE} --tp 8",), 30000, list(range(8))),
    ("taken back and replaced", ("ExecStart=/bin/true", "ExecStart=", f"ExecStart={ENGINE}"), 30000, [0]),
]


@pytest.mark.parametrize(("lines", "port", "gpus"), [row[1:] for row in SEEN], ids=[row[0] for row in SEEN])
def test_port_and_gpus_are_read(
    tmp_path: pathlib.Path, lines: tuple[str, ...], port: int | None, gpus: list[int]
) -> None:
    (tmp_path / "llm.service").write_text(service(*lines))
    (unit,) = found(tmp_path)
    assert (unit.unit, unit.port, unit.gpus(CARDS)) == ("llm.service", port, gpus)


@pytest.mark.parametrize(
    "text",
    [
        service("ExecStart=/usr/bin/sshd -D"),
        service(f"ExecStart={ENGINE}", "ExecStart="),
        service(f"Environment=NOTE='{ENGINE}'", "ExecStart=/bin/true"),
        "# Written by the role blackwell.sglang.sglang_service; a change made here is lost at the next run.\n"
        + service(f"ExecStart={ENGINE}"),
        f"[Unit]\nExecStart={ENGINE}\n",
        service("ExecStart=/srv/absent.sh"),
        service('ExecStart=/bin/sh -c "unclosed'),
        "",
    ],
)
def test_other_units_and_our_own_are_left_alone(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "llm.service").write_text(text)
    (tmp_path / "sglang-qwen.service").write_text(service(f"ExecStart={ENGINE}"))
    assert found(tmp_path, "sglang-qwen.service") == []
    assert [unit.unit for unit in found(tmp_path)] == ["sglang-qwen.service"], "unless it is no instance"


def test_a_script_is_read(tmp_path: pathlib.Path) -> None:
    script, variables = tmp_path / "start.sh", tmp_path / "variables"
    script.write_text(
        "#!/usr/bin/env bash\nset -e # python -m sglang.launch_server --port 1\n"
        'export CUDA_VISIBLE_DEVICES="4,5"\nPORT=31000\n'
        "python3 -m sglang.launch_server \\\n  --model-path /models/X --tp 2 --port $PORT --host $HOST; echo ended\n"
    )
    variables.write_text("# of the site\nHOST=10.0.0.1\n")
    (tmp_path / "llm.service").write_text(service(f"EnvironmentFile=-{variables}", f"ExecStart={script}"))
    (tmp_path / "shell.service").write_text(service(f"ExecStart=/bin/bash {script} now"))
    (first, second) = found(tmp_path)
    assert (first.port, first.gpus(CARDS)) == (second.port, second.gpus(CARDS)) == (31000, [4, 5])
    assert _service_adopt.fields(first.words)["host"] == "10.0.0.1"
    assert _service_adopt.fields(second.words)["host"] == "$HOST"


def test_a_template_is_its_instances_and_a_drop_in_counts(tmp_path: pathlib.Path) -> None:
    (tmp_path / "llm@.service").write_text(service(f"ExecStart={ENGINE}-%i --port 3100%i"))
    wants = tmp_path / "multi-user.target.wants"
    wants.mkdir()
    for instance in ("1", "2"):
        (wants / f"llm@{instance}.service").symlink_to(tmp_path / "llm@.service")
    (tmp_path / "llm@2.service.d").mkdir()
    (tmp_path / "llm@2.service.d" / "gpu.conf").write_text("[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=7\n")
    seen = [(unit.unit, unit.port, unit.gpus(CARDS)) for unit in found(tmp_path)]
    assert seen == [("llm@1.service", 31001, [0]), ("llm@2.service", 31002, [7])]


def test_the_first_folder_wins(tmp_path: pathlib.Path) -> None:
    for folder, port in (("etc", 31001), ("local", 31002)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "llm.service").write_text(service(f"ExecStart={ENGINE} --port {port}"))
    units = _service_handmade.find([], [tmp_path / "etc", tmp_path / "local", tmp_path / "absent"])
    assert [unit.port for unit in units] == [31001]
    (tmp_path / "etc" / "llm.service").unlink()
    (tmp_path / "etc" / "llm.service").symlink_to("/dev/null")
    assert _service_handmade.find([], [tmp_path / "etc", tmp_path / "local"]) == [], "masked"


class Host:
    """systemctl that gives units a state, and counts its calls; eight idle GPUs."""

    def __init__(self, **states: str) -> None:
        self.states = states
        self.shown: list[list[str]] = []

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        if words[:2] == ["systemctl", "show"]:
            self.shown.append(words)
            units = words[words.index("--") + 1 :]
            return 0, "\n\n".join(f"Id={unit}\n{self.states.get(unit.split('.')[0], '')}" for unit in units), ""
        if words[0] == "nvidia-smi" and "gpu" in words[1]:
            return 0, "".join(f"{card['index']}, {card['uuid']}, 0, 97887\n" for card in CARDS), ""
        return 1, "", ""


def probe(tmp_path: pathlib.Path, host: Host, **keys: Any) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The state of a host with the instance qwen on port 30000, and what is in its way."""
    roots = {name: str(tmp_path / name) for name in ("state_root", "config_root")} | {"unit_root": str(tmp_path)}
    wanted = {"name": "qwen", "state": "started", "port": 30000, "gpus": [0, 1], "files": [], **keys}
    state = _service_plan.probe(host, [wanted], str(tmp_path / "root"), [], roots)
    return state, state["instances"]["qwen"]["obstacles"]


ENABLED = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled"
PAUSED = "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=disabled"
DISABLED = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=disabled"


def test_one_that_is_down_and_starts_at_boot_is_an_obstacle_with_the_way_to_adopt_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "llm.service").write_text(
        service("Environment=CUDA_VISIBLE_DEVICES=1,2", f"ExecStart={ENGINE} --tp 2 --api-key s3cr3t")
    )
    host = Host(llm=ENABLED)
    state, (obstacle,) = probe(tmp_path, host)
    assert len(host.shown) == 1, "systemd is asked once, whatever is found"
    assert obstacle["id"] == "hand_made_unit"
    assert "llm.service, which was made by hand" in obstacle["what"]
    assert "starts at boot and would take port 30000 and GPU 1" in obstacle["what"]
    entry = json.loads(obstacle["fix"].split("sglang_instances: ", 1)[1].split(", then ", 1)[0])
    assert entry == {
        "name": "llm",
        "model_path": "/models/X",
        "gpus": [1, 2],
        "args": {"tp": 2},
        "api_key": "{{ vault_sglang_api_key }}",
    }
    assert "systemctl disable --now llm.service" in obstacle["fix"]
    assert "s3cr3t" not in json.dumps(state)
    (shown,) = state["hand_made"]
    assert (shown["unit"], shown["port"], shown["gpus"], shown["enabled"]) == ("llm.service", 30000, [1, 2], True)


@pytest.mark.parametrize(
    ("state", "line", "keys", "words"),
    [
        (PAUSED, f"ExecStart={ENGINE}", {}, "is activating (auto-restart) and would take port 30000 and GPU 0"),
        (ENABLED, f"ExecStart={ENGINE} --port 1", {"gpus": "all"}, "would take GPU 0"),
        (ENABLED, f"ExecStart={ENGINE} --base-gpu-id 7", {}, "would take port 30000"),
        (ENABLED, f"ExecStart={ENGINE} --port 1 --base-gpu-id 7", {}, ""),
        (DISABLED, f"ExecStart={ENGINE}", {}, ""),
        (ENABLED, f"ExecStart={ENGINE}", {"state": "stopped"}, ""),
    ],
)
def test_only_one_that_comes_and_takes_something_is_in_the_way(
    tmp_path: pathlib.Path, state: str, line: str, keys: dict[str, Any], words: str
) -> None:
    (tmp_path / "llm.service").write_text(service(line))
    _state, obstacles = probe(tmp_path, Host(llm=state), **keys)
    assert [obstacle["what"].endswith(words) for obstacle in obstacles] == ([True] if words else [])


def test_one_that_is_named_already_is_not_named_twice(tmp_path: pathlib.Path) -> None:
    (tmp_path / "llm.service").write_text(service(f"ExecStart={ENGINE}"))
    running = {**dict.fromkeys(("name", "user", "address"), "x"), "pid": 0, "unit": "llm.service"}
    state, _obstacles = probe(tmp_path, Host(llm=ENABLED))
    each = {"name": "qwen", "port": 30000, "gpus": "all", "model_path": ""}
    shown = state["hand_made"]
    free = {"error": "", "gpus": [], "holders": []}
    run = Host()
    first = _service_obstacles.find(run, each, [running], free, set(), hand_made=shown)
    assert [obstacle["id"] for obstacle in first] == ["port_taken"]
    second = _service_obstacles.find(run, each, [], free, set(), hand_made=shown)
    assert [obstacle["id"] for obstacle in second] == ["hand_made_unit"]


def test_systemd_is_asked_about_none_of_the_other_units(tmp_path: pathlib.Path) -> None:
    for number in range(200):
        (tmp_path / f"unit{number}.service").write_text(service("ExecStart=/bin/true"))
    host = Host()
    probe(tmp_path, host)
    assert [words for words in host.shown if "unit1.service" in words] == [], "systemd is not asked about them"
    assert len(host.shown) == 1
