"""What the tests of this scenario share."""

from __future__ import annotations

import typing as t

import pytest


class Service:
    """The instance on its host."""

    unit = "sglang-qwen.service"

    def __init__(self, host: t.Any) -> None:
        self.host = host

    def show(self, name: str, unit: str = "") -> str:
        """A property of a unit, the instance's if none is named."""
        return str(self.host.check_output(f"systemctl show -P {name} {unit or self.unit}"))

    def used_mib(self) -> list[int]:
        """Memory in use on each GPU, as the driver says."""
        out = self.host.check_output("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
        return [int(line) for line in out.split()]


@pytest.fixture
def service(host: t.Any) -> Service:
    """The instance on its host."""
    return Service(host)
