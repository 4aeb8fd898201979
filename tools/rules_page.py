# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/rules.md from the lint rules: `.venv/bin/python tools/rules_page.py`."""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
sys.path.insert(0, str(ROOT / ".collections"))

INTRODUCTION = """\
# Rules on arguments and environment

`validate` and every role apply these rules to each instance, beside the option table of the stack's SGLang version.
They are settings that the engine's own parser takes and that are wrong on SM120, or in one version, all the same. A
*refused* one stops the run before anything is changed; a *told* one is a warning.

A rule that does not fit your case is lifted by its id, with a reason that the report repeats:

```yaml
sglang_instances:
  - name: qwen
    exceptions:
      - id: kv_cache_dtype_auto
        reason: the checkpoint carries calibrated scales, measured on our traffic
        until: 2027-01-31 # optional; afterwards the rule refuses again
```

The same list under a stack (`sglang_stacks.NAME.exceptions`) counts for all its instances. An engine built from a fork
knows more than the published table: write such arguments in `extra_args` and except `unknown_argument`, `fork_only` or
`argument_choice`. Before a running server is stopped the host is looked at too: `kv_cache_dtype` lifts what the guard
says of the KV cache, `capacity` a need that cannot fit, `engine_import` an engine that cannot be imported.

This page is written by `tools/rules_page.py`; a test holds it against the rules.

| id | | SGLang | what is seen otherwise | source |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    # Imported here: the path to the collection is set above.
    from ansible_collections.blackwell.sglang.plugins.module_utils._engine import lint, lint_rule  # noqa: PLC0415

    rows = []
    for rule in lint.RULES:
        kind = "refused" if rule.severity == lint_rule.REFUSE else "told"
        if not rule.liftable:
            kind += ", always"
        cells = (f"`{rule.id}`", kind, rule.versions.replace(",", ", ") or "all", rule.symptom, rule.source)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return INTRODUCTION + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
