# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine's parser cannot know: settings that start and are wrong on SM120 (private to the collection).

The rules stand in the ``lint_*`` files beside this one; each carries an id, what is seen when it is broken, a version
range and a source. A rule is lifted by an exception of the instance or its stack with that id.
"""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import (
    lint_backends,
    lint_kernels,
    lint_kv,
    lint_settings,
    lint_speculation,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import REFUSE, Facts, Rule
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion, in_range

# In the order in which they are applied.
RULES: tuple[Rule, ...] = (
    *lint_kv.RULES,
    *lint_kernels.RULES,
    *lint_backends.RULES,
    *lint_speculation.RULES,
    *lint_settings.RULES,
)


def check(
    instance: t.Mapping[str, t.Any],
    where: str,
    findings: t.Any,
    stack_exceptions: t.Sequence[t.Mapping[str, t.Any]],
    unread: t.Collection[str] = (),
) -> None:
    """Apply every rule to one resolved instance.

    Args:
        instance: as resolve builds it.
        where: its variable path, such as ``sglang_instances[0]``.
        findings: gets a problem for each refusal, a warning for each warning and for each refusal that is lifted.
        stack_exceptions: exceptions of its stack; they count as the instance's own.
        unread: arguments that were given with a value that was refused: rules would call them not given.
    """
    facts = Facts(instance)
    lifted = {entry["id"]: entry["reason"] for entry in (*stack_exceptions, *instance["exceptions"])}
    if EngineVersion.try_parse(facts.version) is None:
        return
    for rule in RULES:
        if not in_range(facts.version, rule.versions):
            continue
        found = rule.look(facts)
        if found is None or found.key in {f"args.{field}" for field in unread}:
            continue
        place = f"{where}.{found.key}"
        if rule.id in lifted and rule.liftable:
            findings.warn(place, f"{found.what}; excepted: {lifted[rule.id]}", found.expected, found.fix, rule.id)
        elif rule.severity == REFUSE:
            exception = f", or grant the exception {rule.id} with a reason" if rule.liftable else ""
            findings.problem(place, found.what, found.expected, found.fix + exception, rule.id)
        else:
            findings.warn(place, found.what, found.expected, found.fix, rule.id)
