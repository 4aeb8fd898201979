# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rules about a GPU host in one place (private to the collection)."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules_cards as cards
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules_driver as driver
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules_events as log
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules_fabric as fabric
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules_system as system
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import Facts, Rule, evaluate

RULES: tuple[Rule, ...] = (*driver.RULES, *cards.RULES, *system.RULES, *log.RULES, *fabric.RULES)
# What can be said of a hypervisor from its command line, module options and log alone.
HYPERVISOR_RULES: tuple[str, ...] = (
    "iommu_off_with_vms",
    "amd_iommu_folklore",
    "pci_noacs_folklore",
    "acs_override",
    "vfio_ids",
    "initcall_blacklist",
    "d3cold",
    "event_flr_timeout",
    "event_surprise_down",
    "event_vfio_bind",
    "event_no_iommu_passthrough",
    "event_unknown_pci_option",
    "xid_power",
    "xid_reset",
)


def findings(
    facts: Facts,
    wants: Facts,
    exceptions: t.Iterable[t.Mapping[str, t.Any]] = (),
    only: t.Container[str] | None = None,
    today: datetime.date | None = None,
) -> list[dict[str, t.Any]]:
    """Findings of all rules (or those named in ``only``), errors first; see :func:`_gpu_rule.evaluate`."""
    rules = RULES if only is None else tuple(rule for rule in RULES if rule.id in only)
    return evaluate(rules, facts, wants, exceptions, today)
