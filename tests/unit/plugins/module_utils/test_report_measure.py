"""Measurements in the report: found, kept, drawn, and seen in a real browser."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib
from typing import Any

import jsonschema
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import measure_facts
import report_facts
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _report,
    _report_files,
    _report_html,
    _report_measure,
    _report_plots,
    _report_redact,
)

CONTRACTS = pathlib.Path(__file__).resolve().parents[4] / "docs/contracts"
TEXT = "qwen: 1024 tokens in, 512 out, real text"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Reports of a host that served and was measured."""
    measure_facts.write(tmp_path)
    report = _report.build("sglang1", report_facts.facts(), report_facts.META)
    _report_files.write(str(tmp_path), _report_redact.Redactor(["sk-verysecretkey"]).clean(report), ["sglang1"])
    return tmp_path


def test_the_newest_of_each_shape_is_in_the_report(folder: pathlib.Path) -> None:
    measured = json.loads((folder / "sglang1.json").read_text(encoding="utf-8"))["measured"]
    assert [(each["at"], each["shape"]["dataset"]) for each in measured["sweeps"]] == [
        ("2026-11-29T20:00:00Z", "text"),
        ("2026-11-29T20:20:00Z", "random"),
    ]
    assert [each["best"] for each in measured["matrices"]] == [measure_facts.BEST]


def test_the_facts_of_these_tests_keep_the_contracts() -> None:
    for name, fact in (("benchmark", measure_facts.sweep("x")), ("backend_matrix", measure_facts.matrix())):
        schema = json.loads((CONTRACTS / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.validate(fact, schema, cls=jsonschema.Draft202012Validator)


def test_a_measurement_does_not_erase_what_was_proved(folder: pathlib.Path) -> None:
    late = measure_facts.sweep("2026-11-30T10:00:00Z", 1.1)
    (folder / "benchmark/sglang1-qwen-text-1024-512-20261130T100000Z.json").write_text(json.dumps(late))
    empty = _report.build("sglang1", {}, {"generated_at": "2026-11-30T10:00:00Z"})
    _report_files.measure(str(folder), empty, ["sglang1"])
    report = json.loads((folder / "sglang1.json").read_text(encoding="utf-8"))
    assert report["result"] == "serving"
    assert report["instances"][0]["kv"]["verdict"] == "proved"
    assert report["measured"]["sweeps"][0]["at"] == "2026-11-30T10:00:00Z"


def test_a_host_that_was_only_measured_has_a_page_as_well(tmp_path: pathlib.Path) -> None:
    measure_facts.write(tmp_path)
    empty = _report.build("sglang1", {}, {"generated_at": "2026-11-30T10:00:00Z"})
    page = pathlib.Path(_report_files.measure(str(tmp_path), empty, ["sglang1"]))
    assert TEXT in page.read_text(encoding="utf-8")


def test_other_hosts_broken_files_and_baselines_are_left_out(folder: pathlib.Path) -> None:
    (folder / "benchmark/broken-20261130T100000Z.json").write_text("{")
    other = {**measure_facts.sweep("2026-12-01T10:00:00Z"), "host": "sglang2"}
    (folder / "benchmark/sglang2-qwen-text-1024-512-20261201T100000Z.json").write_text(json.dumps(other))
    assert len(_report_measure.history(folder, "sglang1")) == 4
    assert len(_report_measure.history(folder, "sglang2")) == 1


def test_markdown_says_what_limits_each_level_and_what_was_chosen(folder: pathlib.Path) -> None:
    text = (folder / "sglang1.md").read_text(encoding="utf-8")
    assert f"Best correct combination: {measure_facts.BEST}." in text
    assert "| wrong | moe=triton" in text
    assert re.search(r"^\| 1024 \| 1800 \| 1\.8 \|.*queue-limited by state slots \(C_max 345\) \|$", text, re.MULTILINE)
    assert "The client alone reaches 11000 at C=1024 tok/s." in text


def test_secrets_in_an_error_do_not_reach_the_page(folder: pathlib.Path) -> None:
    spoiled = measure_facts.sweep("2026-12-01T10:00:00Z")
    spoiled["levels"][0].update(label="errors", why="401 for Bearer sk-abcdefghijkl")
    (folder / "benchmark/sglang1-qwen-text-1024-512-20261201T100000Z.json").write_text(json.dumps(spoiled))
    _report_files.measure(str(folder), {"host": "sglang1"}, ["sglang1"])
    for name in ("sglang1.md", "sglang1.html", "sglang1.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert "401 for" in text
        assert "abcdefghijkl" not in text


@pytest.mark.skipif(bool(_report_plots.MATPLOTLIB_ERROR), reason="matplotlib is not installed")
def test_the_plot_takes_its_ink_from_the_page_and_is_the_same_each_time(folder: pathlib.Path) -> None:
    sweeps = _report_measure.history(folder, "sglang1")
    newest = sweeps[2]
    before = _report_measure.earlier(newest, sweeps)
    assert [each["at"] for each in before] == ["2026-11-20T10:00:00Z", "2026-11-27T10:00:00Z"]
    svg = _report_plots.draw(newest, before)
    assert "currentColor" in svg
    assert _report_plots.INK not in svg
    assert "output tokens per second" in svg
    assert "C_max 345" in svg
    assert svg == _report_plots.draw(newest, before)


def test_without_matplotlib_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report_plots, "MATPLOTLIB_ERROR", "No module named 'matplotlib'")
    report = {"measured": {"sweeps": [measure_facts.sweep("2026-11-29T20:00:00Z")]}}
    assert "pip install matplotlib" in _report_plots.figures(report, [])[TEXT]


def test_the_page_needs_no_network_and_escapes_what_it_shows(folder: pathlib.Path) -> None:
    page = (folder / "sglang1.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", page)
    assert "@import" not in page
    assert "<script" not in page
    assert "&lt;b&gt;++++" in page
    assert '<td class="bad">wrong</td>' in page
    assert '<td class="good">ok</td>' in page


def pixels(path: pathlib.Path) -> tuple[int, int, list[bytes]]:
    """Width, height and rows (RGB or RGBA bytes) of an 8-bit PNG, without a library."""
    data = path.read_bytes()
    place, packed = 8, b""
    width = height = channels = 0
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, _depth, color = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[color]
        if kind == b"IDAT":
            packed += body
        place += 12 + length
    raw, stride, rows, above = zlib.decompress(packed), width * channels, [], bytes(width * channels)
    for number in range(height):
        line = bytearray(raw[number * (stride + 1) + 1 : (number + 1) * (stride + 1)])
        mode = raw[number * (stride + 1)]
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            up, corner = above[i], above[i - channels] if i >= channels else 0
            if mode == 1:
                line[i] = (line[i] + left) & 255
            elif mode == 2:
                line[i] = (line[i] + up) & 255
            elif mode == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif mode == 4:
                guess = left + up - corner
                best = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                line[i] = (line[i] + best[2]) & 255
        above = bytes(line)
        rows.append(above)
    return width, channels, rows


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_a_browser_shows_it(folder: pathlib.Path, scheme: str, dark: bool) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium here (apt install chromium): the page was not opened in a browser")
    base = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    base += [f"--user-data-dir={folder}/profile", *(["--blink-settings=preferredColorScheme=0"] if dark else [])]
    quiet: dict[str, Any] = {"env": {**os.environ, "HOME": str(folder)}, "capture_output": True, "timeout": 180}
    # The plot alone, so that few pixels have to be looked at.
    newest = _report_measure.history(folder, "sglang1")[2]
    figures = _report_plots.figures({"measured": {"sweeps": [newest]}}, [])
    plot = folder / "plot.html"
    plot.write_text(_report_html.page(f"# {TEXT}\n", figures), encoding="utf-8")
    shot = folder / f"{scheme}.png"
    subprocess.run([*base, "--window-size=520,330", f"--screenshot={shot}", plot.as_uri()], check=True, **quiet)
    width, channels, rows = pixels(shot)
    corner = rows[2][:3]
    assert (sum(corner) < 150) is dark, f"background {tuple(corner)}"
    if not _report_plots.MATPLOTLIB_ERROR:
        colours = [row[i : i + 3] for row in rows for i in range(0, width * channels, channels)]
        curve = bytes.fromhex(_report_plots.NOW[1:])
        assert sum(1 for colour in colours if colour == curve) > 20, "the curve of the newest sweep is not drawn"
    page = (folder / "sglang1.html").as_uri()
    dom = subprocess.run([*base, "--dump-dom", page], check=True, **quiet).stdout.decode()
    text = re.sub(r"<[^>]+>", " ", dom)
    for said in ("sglang1: serving", "Backends tried", measure_facts.BEST, TEXT, "queue-limited by state slots"):
        assert said in text
