"""Flash attention of Hopper cards. SM120 has none of it; the module is imported there all the same."""

try:
    from sgl_kernel import flash_ops
except ImportError:
    raise ImportError("Can not import FA3 in sgl_kernel. Please check your installation.")


def is_fa3_supported(device=None) -> bool:
    """True on compute capability 8.x and 9.x with CUDA 12.3 or newer."""
    import torch

    return torch.cuda.get_device_capability(device)[0] in (8, 9)


def flash_attn_varlen_func(q, k, v, *args, **kwargs):
    """Attention over packed sequences."""
    return flash_ops.fwd(q, k, v, *args, **kwargs)
