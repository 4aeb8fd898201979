# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backends compute right on a host (documented in plugins/modules/backend_matrix.py)."""

from __future__ import annotations

import contextlib
import copy
import datetime
import fcntl
import pathlib
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.blackwell.sglang.plugins.filter.systemd_words import word
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances, _matrix_plan, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import Problem, SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings
from ansible_collections.blackwell.sglang.plugins.plugin_utils import (
    _gate_call,
    _hostvars,
    _matrix_run,
    _matrix_write,
    _measure_report,
)

display = Display()

SPEC: dict[str, t.Any] = {
    "instance": {"type": "str", "required": True},
    "axes": {"type": "dict", "default": {}},
    "combinations": {"type": "list", "elements": "dict", "default": []},
    "reference": {"type": "dict", "default": {}},
    "output_dir": {"type": "path", "required": True},
    "resume": {"type": "bool", "default": True},
    "write_to": {"type": "path"},
    "ready_timeout": {"type": "float", "default": 1800.0},
    "request_timeout": {"type": "float", "default": 120.0},
    "lengths": {"type": "list", "elements": "int"},
    "concurrent": {"type": "int", "default": 64},
    "long_tokens": {"type": "int", "default": 40000},
    "measure_levels": {"type": "list", "elements": "int", "default": [1, 32]},
    "measure_input_len": {"type": "int", "default": 512},
    "measure_output_len": {"type": "int", "default": 128},
    "measure_dataset": {"type": "str", "choices": ["text", "random"], "default": "text"},
    "measure_timeout": {"type": "float", "default": 900.0},
    "slow_share": {"type": "float", "default": _matrix_plan.SLOW_SHARE},
    "python": {"type": "path"},
    "env": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Lints, tries, judges, puts the service back."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module of the same name."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validated, self._options = self.validate_argument_spec(argument_spec=SPEC)
        self._vars = task_vars or {}
        self._host = str(self._vars.get("inventory_hostname", ""))
        name = self._options["instance"]
        try:
            combinations = _matrix_plan.expand(self._options["axes"], self._options["combinations"])
            resolved = self._resolve(name, {})
            if resolved["problems"]:
                raise SglangError(Problem(**resolved["problems"][0]).text(), where=f"{name} as it is configured")
            self._own = resolved["instance"]
            self._root = self._options["root"] = resolved["root"]
            self._options["user"] = resolved["user"]
            entries, plan = self._lint(combinations)
            result.update(changed=False, plan=plan)
            if self._task.check_mode:
                self._show_plan(plan)
                return result
            with self._alone():
                matrix = self._run_all(combinations, entries)
        except SglangError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        result.update(changed=matrix["starts"] > 0, matrix=matrix)
        if self._options["write_to"] and matrix["best"]:
            result.update(self._write(matrix))
        if matrix["restored"]:
            # The table is on the screen and in the report; here it would bury the message.
            result = {key: result[key] for key in result if key not in ("plan", "matrix")}
            best = f"the best correct combination is {matrix['best']}" if matrix["best"] else "none computed right"
            result.update(
                failed=True,
                best=matrix["best"],
                msg=f"{name} did not come back as it is configured: {matrix['restored']}; of those tried, {best}",
            )
        return result

    def _resolve(self, name: str, args: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The instance with further arguments, as CONFIG's one function resolves and lints it."""
        findings = Findings(self._host)
        plain = _hostvars.plain_hostvars(self._host, self._vars, self._templar.template, findings)
        plain["sglang_instances"] = copy.deepcopy(plain.get("sglang_instances") or [])
        index = next((at for at, each in enumerate(plain["sglang_instances"]) if each.get("name") == name), None)
        if index is None:
            known = ", ".join(str(each.get("name")) for each in plain["sglang_instances"]) or "none"
            raise SglangError(
                f"there is no instance {name}", where="backend_matrix_instance", expected=f"one of {known}"
            )
        entry = plain["sglang_instances"][index]
        entry["args"] = {**(entry.get("args") or {}), **args}
        resolved = _instances.resolve(plain, _hostvars.shipped_stacks(), _hostvars.shipped_profiles())
        place = f"sglang_instances[{index}]"
        own = [each for each in resolved["problems"] if each["where"].startswith(place)]
        return {
            "instance": next((each for each in resolved["instances"] if each["name"] == name), None),
            "problems": own + [problem.as_dict() for problem in findings.problems],
            "warnings": [each for each in resolved["warnings"] if each["where"].startswith(place)],
            "root": resolved["host"]["root"],
            "user": resolved["host"]["user"],
        }

    def _lint(
        self, combinations: list[_matrix_plan.Combination]
    ) -> tuple[dict[str, dict[str, t.Any]], list[dict[str, t.Any]]]:
        """Resolve each combination; entries of those that are refused, and the plan."""
        self._resolved: dict[str, dict[str, t.Any]] = {}
        entries, plan = {}, []
        for combination in combinations:
            resolved = self._resolve(self._options["instance"], combination.args)
            why = "; ".join(problem["what"] for problem in resolved["problems"])
            if resolved["problems"] or resolved["instance"] is None:
                entry = _matrix_run.new_entry(combination)
                entry.update(verdict="refused", why=why or "the instance could not be resolved")
                entry["problems"] = resolved["problems"]
                entries[combination.id] = entry
            else:
                self._resolved[combination.id] = resolved
            plan.append(
                {"id": combination.id, "args": combination.args, "try": combination.id not in entries, "why": why}
            )
        return entries, plan

    def _show_plan(self, plan: list[dict[str, t.Any]]) -> None:
        for each in plan:
            self._show(f"{'try' if each['try'] else 'skip'}  {each['id']}{'  ' + each['why'] if each['why'] else ''}")
        self._show(f"{sum(1 for each in plan if each['try'])} starts, and one to restore the service")

    @contextlib.contextmanager
    def _alone(self) -> t.Iterator[None]:
        """Keep a second matrix of the same instance out; the lock ends with this process, however it ends.

        Raises:
            SglangError: another one runs.
        """
        folder = pathlib.Path(self._options["output_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{self._host}-{self._own['name']}.state.json"
        with self._file.with_suffix(".lock").open("w", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                raise SglangError(
                    f"another matrix of {self._own['name']} runs",
                    where=stream.name,
                    fix="wait for it; two of them would stop each other's trials",
                ) from exc
            yield

    def _run_all(
        self, combinations: list[_matrix_plan.Combination], refused: dict[str, dict[str, t.Any]]
    ) -> dict[str, t.Any]:
        first = self._call(_matrix_run.STEP, {"step": "look", "instance": self._own, "root": self._root})
        if first.get("failed"):
            raise SglangError(str(first.get("msg")))
        state = self._state(first)
        starts = 0
        trouble: SglangError | None = None
        try:
            for number, combination in enumerate(combinations, start=1):
                name = f"{number}/{len(combinations)} {combination.id}"
                known = refused.get(combination.id) or state["entries"].get(combination.id)
                if known:
                    self._show(f"{name}: {known['verdict']} ({known['why'] or 'known'})")
                    continue
                self._show(f"{name}: starting")
                starts += 1
                entry = self._try(combination, state)
                state["entries"][combination.id] = entry
                _service.write_json(self._file, state)
                self._show(f"{name}: {entry['verdict']} {entry['why']}".rstrip())
        except SglangError as exc:
            trouble = exc
        finally:
            restored = self._restore(bool(state["was_running"])) if starts or first["trial"] else ""
        if trouble is not None:
            raise SglangError(f"{trouble}{' The service: ' + restored if restored else ''}")
        # A matrix that came to its end is not resumed: the next one asks afresh.
        self._file.unlink(missing_ok=True)
        entries = [refused.get(each.id) or state["entries"][each.id] for each in combinations]
        return self._report(entries, starts, restored, first)

    def _try(self, combination: _matrix_plan.Combination, state: dict[str, t.Any]) -> dict[str, t.Any]:
        resolved = self._resolved[combination.id]
        instance = resolved["instance"]
        words = [word(str(each)) for each in instance["argv"]]
        trial = _matrix_run.Trial(self._call, self._show, instance, words, self._options, state["token_ids"])
        entry = trial.run(combination)
        state["token_ids"] = trial.token_ids
        entry["warnings"] = [warning["what"] for warning in resolved["warnings"]]
        return entry

    def _state(self, first: dict[str, t.Any]) -> dict[str, t.Any]:
        """What an interrupted matrix left, if it was of the same release, checkpoint, arguments and questions."""
        asked = {key: self._options[key] for key in sorted(SPEC) if key.startswith(("measure_", "long", "len", "conc"))}
        digest = _matrix_plan.digest(first["release"], self._own["argv"], self._own["env"], self._options["env"], asked)
        stored = _service.read_json(self._file)
        same = isinstance(stored, dict) and stored.get("digest") == digest
        was_running = (
            bool(stored.get("was_running")) if first["trial"] and isinstance(stored, dict) else first["running"]
        )
        if same and self._options["resume"] and stored["entries"]:
            self._show(f"{len(stored['entries'])} combinations are known from {self._file}")
            return {**stored, "was_running": was_running}
        state: dict[str, t.Any] = {
            "version": 1,
            "digest": digest,
            "was_running": was_running,
            "entries": {},
            "token_ids": None,
        }
        _service.write_json(self._file, state)
        return state

    def _restore(self, running: bool) -> str:
        """Put the service back and gate it; empty, or why it did not come back."""
        self._show("restoring the service as it was")
        asked = {"step": "restore", "instance": self._own, "root": self._root, "running": running}
        reply = self._call(_matrix_run.STEP, asked)
        if reply.get("failed"):
            return str(reply.get("msg"))
        return _gate_call.why_not(_gate_call.gate(self, self._own, self._root, self._vars)) if running else ""

    def _report(
        self, entries: list[dict[str, t.Any]], starts: int, restored: str, first: dict[str, t.Any]
    ) -> dict[str, t.Any]:
        wanted = _matrix_plan.name_of(self._options["reference"]) if self._options["reference"] else ""
        reference, why = _matrix_run.settle(entries, wanted)
        best = _matrix_plan.rank(entries, self._options["slow_share"])
        matrix = {
            "version": 1,
            "host": self._host,
            "instance": self._own["name"],
            "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "release": first["release"],
            "engine_version": self._own.get("engine_version"),
            "model_path": self._own["model_path"],
            "reference": {"id": reference, "why": why},
            "best": best,
            "best_args": next((entry["args"] for entry in entries if entry["id"] == best), None),
            "starts": starts,
            "restored": restored,
            "combinations": [{key: entry[key] for key in entry if key != "answers"} for entry in entries],
        }
        stamp = str(matrix["at"]).replace("-", "").replace(":", "")
        file = self._file.with_name(f"{self._host}-{self._own['name']}-{stamp}.json")
        _service.write_json(file, matrix, mode=0o644)
        display.display(_matrix_plan.table(entries, best))
        self._show(f"reference: {reference or 'none'} ({why})")
        self._show(f"best correct combination: {best or 'none computed right'}")
        page = _measure_report.bring_in(file.parent.parent, self._host, self._vars)
        self._show(f"{starts} starts; written to {file}; report: {page}")
        return matrix

    def _write(self, matrix: dict[str, t.Any]) -> dict[str, t.Any]:
        path = pathlib.Path(self._options["write_to"])
        try:
            before, after = _matrix_write.write(path, matrix["instance"], matrix["best_args"])
        except SglangError as exc:
            return {"failed": True, "msg": str(exc)}
        self._show(f"{path}: {'unchanged' if before == after else 'written'}; site.yml makes it serve")
        return {"diff": {"before": before, "after": after, "before_header": str(path), "after_header": str(path)}}

    def _call(self, module: str, args: dict[str, t.Any]) -> dict[str, t.Any]:
        reply: dict[str, t.Any] = self._execute_module(module_name=module, module_args=args, task_vars=self._vars)
        return reply

    def _show(self, words: str) -> None:
        display.display(f"    {self._host} | {words}")
