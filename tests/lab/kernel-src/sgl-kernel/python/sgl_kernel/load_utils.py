"""Loads sm90/common_ops on capability 9.0 and sm100/common_ops on everything else, 12.0 included."""

import importlib.util
import sys
from pathlib import Path


def _get_compute_capability():
    """Capability of the current device as major * 10 + minor, or None without one."""
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return major * 10 + minor


def _load_architecture_specific_ops():
    capability = _get_compute_capability()
    folder = "sm90" if capability == 90 else "sm100"
    base = Path(__file__).parent
    errors = []
    for candidate in [folder, "sm90" if folder == "sm100" else "sm100"]:
        for path in sorted((base / candidate).glob("common_ops.*")):
            spec = importlib.util.spec_from_file_location("common_ops", str(path))
            module = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except ImportError as error:
                errors.append(f"{path}: {error}")
                continue
            sys.modules["sgl_kernel.common_ops"] = module
            return module
    raise ImportError(
        "[sgl_kernel] CRITICAL: Could not load any common_ops library!\n"
        f"capability {capability}, wanted {folder}\n" + "\n".join(errors)
    )
