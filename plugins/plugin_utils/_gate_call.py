# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the gate from another action plugin (controller only)."""

from __future__ import annotations

import typing as t


def gate(plugin: t.Any, instance: dict[str, t.Any], root: str, variables: dict[str, t.Any]) -> dict[str, t.Any]:
    """The result of ``sglang_gate`` for an instance, with its words on the screen; ``failed`` where it could not ask.

    Args:
        plugin: the action plugin that asks; its task, connection and loaders are used.
        instance: a resolved instance.
        root: folder of releases and instances on the host.
        variables: task variables.
    """
    task = plugin._task.copy()
    task.action = "blackwell.sglang.sglang_gate"
    task.args = {"instance": instance, "root": root}
    action = plugin._shared_loader_obj.action_loader.get(
        task.action,
        task=task,
        connection=plugin._connection,
        play_context=plugin._play_context,
        loader=plugin._loader,
        templar=plugin._templar,
        shared_loader_obj=plugin._shared_loader_obj,
    )
    result: dict[str, t.Any] = action.run(task_vars=variables)
    return result


def why_not(result: dict[str, t.Any]) -> str:
    """Empty when the gate passed, else its reason in one sentence."""
    if result.get("passed") and not result.get("failed"):
        return ""
    diagnosis = result.get("diagnosis") or {}
    failed = [check["id"] for check in result.get("checks") or [] if check["passed"] is False]
    return str(diagnosis.get("what") or result.get("msg") or ", ".join(failed) or "the gate did not pass")
