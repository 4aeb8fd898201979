# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A throughput sweep with its screen output, files and verdict (documented in plugins/modules/sglang_benchmark.py)."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_plan, _bench_result, _service
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _gate_call, _measure_report
from ansible_collections.blackwell.sglang.plugins.plugin_utils._bench_run import Bench

display = Display()

SPEC: dict[str, t.Any] = {
    "instance": {"type": "dict", "required": True},
    "root": {"type": "path", "default": "/opt/sglang"},
    "python": {"type": "path"},
    "user": {"type": "str", "default": "sglang"},
    "levels": {"type": "list", "elements": "int", "default": list(_bench_plan.LEVELS)},
    "prompts_per_level": {"type": "int", "default": _bench_plan.PROMPTS_PER_LEVEL},
    "input_len": {"type": "int", "default": 1024},
    "output_len": {"type": "int", "default": 512},
    "dataset": {"type": "str", "choices": list(_bench_plan.DATASETS), "default": "text"},
    "text": {"type": "path"},
    "seed": {"type": "int", "default": 1},
    "restarts": {"type": "int", "default": 0},
    "ceiling": {"type": "bool", "default": True},
    "level_timeout": {"type": "int", "default": 7200},
    "output_dir": {"type": "path", "required": True},
    "baseline": {"type": "str", "choices": ["keep", "update", "ignore"], "default": "keep"},
    "regression": {"type": "str", "choices": ["fail", "warn"], "default": "warn"},
    "tolerance": {"type": "float"},
}


class ActionModule(ActionBase):
    """Plans, runs, merges, compares, writes."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module of the same name."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=SPEC)
        self._vars = task_vars or {}
        self._host = str(self._vars.get("inventory_hostname", ""))
        # Without its environment, which may hold a token: a module writes its arguments into the journal of the host.
        instance = {key: value for key, value in options["instance"].items() if key != "env"}
        if options["prompts_per_level"] < _bench_plan.PROMPTS_PER_LEVEL:
            self._show(f"{options['prompts_per_level']} prompts per concurrent request: ramp and drain weigh heavily")
        shape = _bench_plan.Shape(options["input_len"], options["output_len"], options["dataset"])
        bench = Bench(self._call, self._show, instance, shape, options, float(options["level_timeout"]))
        probe = bench.probe()
        if probe.get("failed"):
            if not self._task.check_mode:
                raise AnsibleActionFail(f"{instance['name']} cannot be measured: {probe.get('msg')}")
            result.update(changed=False, skipped=True, msg=f"nothing to measure yet: {probe.get('msg')}")
            return result
        limits = _bench_plan.Limits(**probe["limits"])
        levels = _bench_plan.plan(options["levels"], shape, limits, options["prompts_per_level"])
        result.update(changed=False, plan=[dataclasses.asdict(level) for level in levels], limits=limits.as_dict())
        if self._task.check_mode:
            return result
        sweep = self._sweep(bench, levels, options)
        sweep.update(
            version=1,
            host=self._host,
            instance=instance["name"],
            at=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            engine_version=probe["engine_version"],
            client=bench.client or probe["client"],
            shape=dataclasses.asdict(shape),
            text_digest=bench.text_digest,
            limits=limits.as_dict(),
            seed=options["seed"],
        )
        self._judge(sweep, options, shape)
        result.update(changed=options["restarts"] > 0, benchmark=sweep)
        if sweep["comparison"]["verdict"] == "worse" and options["regression"] == "fail":
            result.update(failed=True, msg=f"{instance['name']} became slower: {sweep['comparison']['why']}")
        return result

    def _sweep(self, bench: Bench, levels: list[_bench_plan.Level], options: dict[str, t.Any]) -> dict[str, t.Any]:
        ceiling = self._ceiling(bench, levels) if options["ceiling"] else []
        runs = []
        for number in range(options["restarts"] + 1):
            if number:
                self._restart(bench.instance, options, number)
            rows: list[dict[str, t.Any]] = []
            for level in levels:
                row = bench.level(level)
                rows.append(row)
                cells = _bench_result.cells(row)
                self._show(
                    f"C={cells[0]}: {cells[1]} tok/s, {cells[2]} each, {cells[5]} ok in {cells[4]} s; {cells[-1]}"
                )
                if row["label"] == "errors" and bench.probe().get("failed"):
                    gone = f"not run: the server stopped answering at C={level.concurrency}"
                    rest = [dataclasses.replace(each, run=False, why=gone) for each in levels[len(rows) :]]
                    rows += [{**bench.level(each), "label": "errors"} for each in rest]
                    break
            runs.append(rows)
            if len(runs[0]) != len(rows):
                raise AnsibleActionFail("restarts measured different levels")
        merged = _bench_result.against_ceiling(_bench_result.merge(runs), ceiling)
        points = [{key: row[key] for key in ("concurrency", "tok_s", "label")} for row in ceiling]
        return {"levels": merged, "restarts": options["restarts"], "ceiling": points}

    def _ceiling(self, bench: Bench, levels: list[_bench_plan.Level]) -> list[dict[str, t.Any]]:
        """Measure the client itself at the lowest, a middle and the highest level that will be run."""
        numbers = [level.concurrency for level in levels if level.run]
        picked = sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]}) if numbers else []
        rows = []
        for number in picked:
            level = _bench_plan.Level(
                number, max(2 * number, 32), "compute", None, "against a server that answers at once"
            )
            rows.append(bench.level(level, instant=True))
            speed = f"{rows[-1]['tok_s']:.0f} tok/s" if rows[-1]["tok_s"] else rows[-1]["why"]
            self._show(f"the client's own ceiling at C={number}: {speed}")
        return rows

    def _restart(self, instance: dict[str, t.Any], options: dict[str, t.Any], number: int) -> None:
        self._show(f"restart {number} of {options['restarts']}")
        done = self._call("ansible.builtin.systemd_service", {"name": instance["unit"], "state": "restarted"})
        if done.get("failed"):
            raise AnsibleActionFail(f"{instance['unit']} could not be restarted: {done.get('msg')}")
        why = _gate_call.why_not(_gate_call.gate(self, instance, options["root"], self._vars))
        if why:
            raise AnsibleActionFail(f"{instance['name']} did not come back after restart {number}: {why}")

    def _judge(self, sweep: dict[str, t.Any], options: dict[str, t.Any], shape: _bench_plan.Shape) -> None:
        """Compare with the stored baseline, write the files, print the table."""
        folder = pathlib.Path(options["output_dir"])
        stem = f"{self._host}-{sweep['instance']}-{shape.name}"
        baseline_file = folder / f"{stem}.baseline.json"
        stored = None if options["baseline"] == "ignore" else _service.read_json(baseline_file)
        sweep["comparison"] = _bench_result.compare(sweep, stored, options["tolerance"])
        stamp = sweep["at"].replace("-", "").replace(":", "")
        file = folder / f"{stem}-{stamp}.json"
        _service.write_json(file, sweep, mode=0o644)
        sound = all(row["label"] != "errors" for row in sweep["levels"])
        if options["baseline"] == "update" or (options["baseline"] == "keep" and stored is None and sound):
            _service.write_json(baseline_file, sweep, mode=0o644)
        display.display(_bench_result.table(sweep["levels"], shape))
        comparison = sweep["comparison"]
        if comparison["verdict"] != "none":
            self._show(f"against the baseline of {comparison['at']}: {comparison['verdict']} ({comparison['why']})")
        if comparison["verdict"] == "worse" and options["regression"] == "warn":
            display.warning(f"{sweep['instance']} is slower than the baseline: {comparison['why']}")
        page = _measure_report.bring_in(folder.parent, self._host, self._vars)
        self._show(f"written to {file}; report: {page}")

    def _call(self, module: str, args: dict[str, t.Any]) -> dict[str, t.Any]:
        reply: dict[str, t.Any] = self._execute_module(module_name=module, module_args=args, task_vars=self._vars)
        return reply

    def _show(self, words: str) -> None:
        display.display(f"    {self._host} | {words}")
