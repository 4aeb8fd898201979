"""The report: its shape, what is taken out of it, and when it is written again."""

from __future__ import annotations

import concurrent.futures
import html.parser
import json
import pathlib
import subprocess
import typing as t

import jsonschema
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gpu_probe,
    _gpu_rules,
    _report,
    _report_files,
    _report_html,
    _report_markdown,
    _report_record,
    _report_redact,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from gpu_tree import Tree, run_command
from hypothesis import assume, given
from hypothesis import strategies as st
from report_facts import META, facts, failed, gate, quiet

CONTRACTS = pathlib.Path(__file__).resolve().parents[4] / "docs" / "contracts"


def schema(name: str) -> dict[str, t.Any]:
    """A contract, itself checked."""
    found: dict[str, t.Any] = json.loads((CONTRACTS / name).read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def report_of(found: dict[str, t.Any], host: str = "sglang1", **meta: t.Any) -> dict[str, t.Any]:
    """A report as it is written: built, then redacted."""
    built = _report.build(host, found, {**META, **meta})
    cleaned: dict[str, t.Any] = _report_redact.Redactor(["topsecretvalue"]).clean(built)
    return cleaned


@pytest.mark.parametrize("found", [facts(), quiet(), failed(), {}], ids=["changed", "quiet", "failed", "nothing known"])
def test_reports_and_records_keep_their_contracts(tmp_path: pathlib.Path, found: dict[str, t.Any]) -> None:
    probe = _gpu_probe.read(Host(run_command, str(Tree(tmp_path).root)))
    probe["findings"] = _gpu_rules.findings(probe, {"gpus": 8})
    report = report_of({**found, "gpu_host_result": probe} if found else {})
    jsonschema.validate(report, schema("report.schema.json"))
    jsonschema.validate(_report_record.build(report, "somebody", "controller"), schema("run_record.schema.json"))
    assert _report_markdown.host_page(report).startswith("# sglang1: ")


def test_contract_refuses_what_is_no_report() -> None:
    wrong = {**report_of(facts()), "result": "fine"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema("report.schema.json"))


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (facts(), "serving"),
        (quiet(), "serving"),
        (failed(), "failed"),
        ({}, "nothing to serve"),
        (facts(sglang_service_result=None), "not proved in this run"),
    ],
)
def test_result_in_one_word(found: dict[str, t.Any], result: str) -> None:
    assert report_of(found)["result"] == result


def test_an_operators_step_back_that_is_proved_serves() -> None:
    """Nothing was deployed, so the only gate is that of what came back."""
    found = failed()
    entry = found["sglang_service_result"]["instances"]["qwen"]
    entry.update(gate=None, diagnosis=None, state="rolled back")
    del found["sglang_failure"]
    report = report_of(found)
    assert report["result"] == "serving"
    assert report["instances"][0]["gate"]["passed"]
    assert report["instances"][0]["rollback"]["to_release"] == "20261128T100000Z-ffffff"
    assert report["timings"]["gate_seconds"]["qwen"] > 0
    entry["rollback"]["gate"]["passed"] = False
    assert report_of(found)["result"] == "failed"


def test_page_says_what_was_asked_for() -> None:
    page = _report_markdown.host_page(report_of(facts()))
    for word in (
        "# sglang1: serving",
        "built or completed release 20261129T195000Z-0a1b2c of stack nightly",
        "| torch | 2.12.0.dev20260307+cu130 | ==2.12.0.dev20260307+cu130 | pytorch | wins against others' pins |",
        "| warn | sglang 0.5.12.post1 asks for torch ==2.9.1, the stack's pin wins |  |",
        "| add | torch |  | 2.12.0.dev20260307+cu130 |",
        "| cmp0169 | applied |",
        "--kv-cache-dtype bf16",
        "verdict **proved**: it is bfloat16.",
        "| arithmetic | 15357 bytes per token and GPU, BF16 makes 15360 | proves |",
        "| tokens | 1194148 |",
        "| stack nightly | torch_override | the nightly is what was asked for | 2027-01-01 |",
        "| gpu_host | shm_small | one card |  |",
        "### Gate: passed",
        "| out of service: qwen | 101.2 |",
        "| hypervisor | pve1, guest 129 (lxc), 3 devices |",
    ):
        assert word in page, word


def test_page_of_a_failure_has_message_diagnosis_and_rollback() -> None:
    page = _report_markdown.host_page(report_of(failed()))
    for word in (
        "# sglang1: failed",
        "Task: Gate the instance",
        "qwen: right.logprobs failed",
        "- what: the model computes NaN",
        "Rollback of qwen to 20261128T100000Z-ffffff: its gate: passed.",
        "| right.logprobs | FAILED | numbers | null where a log-probability should be |",
    ):
        assert word in page, word
    assert "verysecretkey" not in page


def test_no_secret_and_no_personal_path_gets_in() -> None:
    found = facts()
    instance = found["sglang_resolved"]["instances"][0]
    instance["argv"] += ["--api-key", "plainkey", "--download-dir", "/home/somebody/models"]
    found["sglang_service_result"]["instances"]["qwen"]["argv"] = instance["argv"]
    found["sglang_resolved"]["stacks"]["nightly"]["kernel"]["repository"] = "https://user:pass@git.example.org/k.git"
    found["sglang_failure"] = {
        "host": "sglang1",
        "task": "x",
        "msg": "Bearer abcdefgh123 topsecretvalue in /root/.cache/uv",
    }
    text = json.dumps(report_of(found)) + _report_markdown.host_page(report_of(found))
    for word in (
        "plainkey",
        "hf_abcdefghijklmnop",
        "user:pass",
        "abcdefgh123",
        "topsecretvalue",
        "/home/somebody",
        "/root/",
    ):
        assert word not in text, word
    assert "git.example.org/k.git" in text


@pytest.mark.parametrize(
    "text",
    [
        "--api-key=sesame-open",
        "--api-key sesame-open",
        "API_KEY=sesame-open",
        "SGLANG_API_KEY=sesame-open",
        '{"api_key": "sesame-open"}',
        '{"api_key": "{{sesame-open"}',
        "api_key: sesame-open",
        "Authorization: Bearer sesame-open",
        "https://u:sesame-open@host/simple/",
        "https://sesame-open@host/simple/",
        "http://host/path?token=sesame-open&x=1",
    ],
)
def test_secrets_in_sentences(text: str) -> None:
    assert "sesame-open" not in _report_redact.Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "#tokens: 341952",
        "max_total_num_tokens=1194148",
        "token_capacity",
        "http://10.0.0.1:8080/simple/",
        '{"api_key": "{{ vault_sglang_api_key }}"}, then',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert _report_redact.Redactor().text(text) == text


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=40),
    st.text(max_size=40),
)
def test_known_secret_never_survives(secret: str, around: str) -> None:
    cleaned = _report_redact.Redactor([secret]).clean({"a": [around + secret + around], around: secret})
    assume(not set(secret) & set(_report_redact.HIDDEN))
    assert secret not in cleaned["a"]
    assert all(secret not in key and secret not in str(value) for key, value in cleaned.items() if key != "a")


def test_names_of_secrets() -> None:
    secret = ("api_key", "HF_TOKEN", "hub_token", "password", "SGLANG_API_KEY", "client_secret", "token")
    harmless = ("api_key_set", "max_total_tokens", "tokens", "token_capacity", "tokenizer_path", "passed", "key")
    assert [name for name in secret if not _report_redact.secret_name(name)] == []
    assert [name for name in harmless if _report_redact.secret_name(name)] == []


def test_page_is_written_again_only_when_something_differs(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "reports")
    assert _report_files.write(folder, report_of(facts()), ["sglang1"])["written"] is True
    page = (tmp_path / "reports" / "sglang1.md").read_text()
    later = report_of(quiet(), generated_at="2026-11-30T06:00:00Z", run_seconds=4.0)
    assert _report_files.write(folder, later, ["sglang1"])["written"] is False
    assert (tmp_path / "reports" / "sglang1.md").read_text() == page
    restarted = quiet()
    restarted["sglang_service_result"]["instances"]["qwen"]["gate"] = gate("c" * 32, quick=True)
    assert _report_files.write(folder, report_of(restarted), ["sglang1"])["written"] is True
    assert _report_files.write(folder, report_of(failed()), ["sglang1"])["written"] is True
    assert _report_files.write(folder, report_of(quiet()), ["sglang1"])["written"] is True


def test_cheap_gate_keeps_the_full_one_of_the_same_start() -> None:
    kept = _report.keep_richer(report_of(facts()), report_of(quiet()))
    assert [check["id"] for check in kept["instances"][0]["gate"]["checks"]] == [
        "ready.unit",
        "ordered.kv",
        "right.logprobs",
    ]
    other = report_of(quiet())
    other["instances"][0]["gate"]["invocation_id"] = "c" * 32
    assert len(_report.keep_richer(report_of(facts()), other)["instances"][0]["gate"]["checks"]) == 2


def test_many_hosts_at_once_make_one_summary(tmp_path: pathlib.Path) -> None:
    hosts = [f"gpu{number}" for number in range(8)]

    def one(host: str) -> None:
        _report_files.write(str(tmp_path), report_of(facts(), host), hosts)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, hosts))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [entry["host"] for entry in summary["hosts"]] == hosts
    page = (tmp_path / "README.md").read_text()
    assert all(f"[{host}]({host}.md)" in page for host in hosts)
    assert not list(tmp_path.glob(".*.md.*"))


def test_broken_report_of_an_earlier_run_is_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sglang1.json").write_text("{ half")
    assert _report_files.write(str(tmp_path), report_of(facts()), ["sglang1"])["written"] is True


def test_folder_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SglangError, match="sglang_report_dir"):
        _report_files.write(str(tmp_path / "file" / "reports"), report_of(facts()), ["sglang1"])


@pytest.mark.parametrize("host", ["../../etc/passwd", ".hidden", "a/b", "sglang1.example.org", ""])
def test_names_of_hosts_stay_in_the_folder(tmp_path: pathlib.Path, host: str) -> None:
    name = _report_files.file_name(host)
    assert (tmp_path / f"{name}.md").resolve().parent == tmp_path.resolve()
    assert not name.startswith(".")


def test_record_is_appended_and_old_lines_go(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lib with space" / "runs.jsonl")
    for number in range(5):
        record = _report_record.build(report_of(failed(), run_seconds=float(number)), "it's me", "controller")
        subprocess.run(["/bin/sh", "-c", _report_record.command(record, path, keep=3)], check=True)
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    assert [line["run_seconds"] for line in lines] == [2.0, 3.0, 4.0]
    assert lines[-1]["who"] == "it's me@controller"
    assert lines[-1]["instances"]["qwen"]["rollback"] == "20261128T100000Z-ffffff"
    assert [place.name for place in pathlib.Path(path).parent.iterdir()] == ["runs.jsonl"]


class _Page(html.parser.HTMLParser):
    """Text by tag, and whether every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)


def test_html_says_what_markdown_says_and_needs_no_network() -> None:
    found = failed()
    found["sglang_failure"]["msg"] = "<script>alert(1)</script> & more"
    text = _report_html.page(_report_markdown.host_page(report_of(found)))
    parsed = _Page()
    parsed.feed(text)
    assert parsed.open == []
    assert "script" not in parsed.text
    assert "<script>alert(1)</script> & more" in "".join(parsed.text["pre"])
    assert "--kv-cache-dtype bf16" in "".join(parsed.text["pre"])
    assert {"right.logprobs", "FAILED", "2.12.0.dev20260307+cu130"} <= set(parsed.text["td"])
    assert parsed.links == []
    assert "http" not in text.split("<body>", maxsplit=1)[0]


def test_summary_in_html_links_its_pages(tmp_path: pathlib.Path) -> None:
    _report_files.write(str(tmp_path), report_of(facts()), ["sglang1"])
    parsed = _Page()
    parsed.feed((tmp_path / "README.html").read_text())
    assert parsed.links == ["sglang1.html"]
    assert (tmp_path / "sglang1.html").is_file()


@given(st.text(max_size=300))
def test_any_text_makes_a_closed_page(text: str) -> None:
    parsed = _Page()
    parsed.feed(_report_html.page(text))
    assert parsed.open == []
