"""Which wheels the lab's indexes hold: names, versions, tags and requirements of the real ones, cut down.

What matters is kept exactly: the pins of torch, FlashInfer and the kernel, the CUDA generation of each torch, tags, the
index a project is on. The long tail of small requirements is cut to a few; their versions are plausible, no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

PYTHONS = ("cp311", "cp312", "cp313")
MANYLINUX = "manylinux_2_28_x86_64"
ANY = "py3-none-any"


@dataclass(frozen=True)
class Entry:
    """One version of one project; `source` is a folder under src/ or the engine, `package` an empty import package."""

    index: str
    name: str
    version: str
    tags: tuple[str, ...] = (ANY,)
    requires: tuple[str, ...] = ()
    requires_python: str = ">=3.10"
    source: str | None = None
    package: str | None = None
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Torch:
    """A torch and its companions: what its version says, what it was built with, where it is found."""

    version: str
    cuda: str
    vision: str
    audio: str
    triton: str
    index: str = "default"

    @property
    def shown(self) -> str:
        """torch.__version__: on the default index the CUDA tag is left out of the metadata, not out of the module."""
        return self.version if "+" in self.version else f"{self.version}+cu{self.cuda.replace('.', '')}"

    @property
    def git(self) -> str:
        """torch.version.git_version: the lab's own, stable for a version."""
        return hashlib.sha1(self.version.encode(), usedforsecurity=False).hexdigest()

    @property
    def public(self) -> str:
        """The version without the CUDA tag."""
        return self.version.partition("+")[0]


TORCHES = (
    Torch("2.9.1", "12.8", "0.24.1", "2.9.1", "3.5.1"),
    Torch("2.10.0", "12.8", "0.25.0", "2.10.0", "3.6.0"),
    Torch("2.11.0", "13.0", "0.26.0", "2.11.0", "3.6.0"),
    Torch("2.12.0.dev20260228+cu130", "13.0",
        "0.26.0.dev20260228+cu130", "2.11.0.dev20260228+cu130", "3.6.0+git9844da95", "pytorch",
    ),
    Torch("2.12.0.dev20260307+cu130", "13.0",
        "0.26.0.dev20260307+cu130", "2.11.0.dev20260307+cu130", "3.6.0+git9844da95", "pytorch",
    ),
)  # fmt: skip

NVIDIA = {
    "12.8": (
        ("nvidia-cuda-runtime-cu12", "12.8.90"), ("nvidia-cublas-cu12", "12.8.4.1"),
        ("nvidia-cudnn-cu12", "9.10.2.21"), ("nvidia-nccl-cu12", "2.27.5"),
    ),
    "13.0": (
        ("nvidia-cuda-runtime", "13.0.96"), ("nvidia-cublas", "13.1.0.3"),
        ("nvidia-cudnn-cu13", "9.19.0.56"), ("nvidia-nccl-cu13", "2.28.9"),
    ),
}  # fmt: skip

# Pure packages without content: project -> (version, import package).
SMALL = {
    "filelock": ("3.20.3", "filelock"),
    "sympy": ("1.14.0", "sympy"),
    "numpy": ("2.4.2", "numpy"),
    "pillow": ("12.1.1", "PIL"),
    "tqdm": ("4.67.3", "tqdm"),
    "apache-tvm-ffi": ("0.1.9", "tvm_ffi"),
    "nvidia-cutlass-dsl": ("4.4.1", "cutlass"),
    "tokenizers": ("0.22.2", "tokenizers"),
    "safetensors": ("0.7.0", "safetensors"),
    "xgrammar": ("0.1.32", "xgrammar"),
}
TRANSFORMERS = ("4.57.1", "5.6.0")
XGRAMMAR_OLD = "0.1.27"

# FlashInfer: version -> what it wants of torch. The real ones leave torch unpinned; 0.6.4 plays the one that does not
# and pulls torch down when it is asked for beside a nightly.
FLASHINFERS = {"0.6.3": "torch", "0.6.4": "torch<2.11", "0.6.5": "torch", "0.6.11.post1": "torch"}
JIT_CACHES = ("0.6.5+cu130", "0.6.11.post1+cu130")


def _torch() -> Iterator[Entry]:
    for torch in TORCHES:
        tags = tuple(f"{python}-{python}-{MANYLINUX}" for python in PYTHONS)
        nvidia = tuple(f'{name}=={version}; platform_system == "Linux"' for name, version in NVIDIA[torch.cuda])
        values = {
            "VERSION": torch.shown,
            "RELEASE": torch.public.split(".dev")[0],
            "CUDA": torch.cuda,
            "GIT": torch.git,
        }
        requires = ("filelock", "sympy>=1.13.3", *nvidia, f'triton=={torch.triton}; platform_system == "Linux"')
        yield Entry(torch.index, "torch", torch.version, tags, requires, source="torch", values=values)
        pin = f"torch=={torch.public}"
        yield Entry(
            torch.index,
            "torchvision",
            torch.vision,
            tags,
            ("numpy", pin, "pillow!=8.3.*,>=5.3.0"),
            package="torchvision",
        )
        yield Entry(torch.index, "torchaudio", torch.audio, tags, (pin,), package="torchaudio")


def _triton() -> Iterator[Entry]:
    for version, index in sorted({(torch.triton, torch.index) for torch in TORCHES}):
        tags = tuple(f"{python}-{python}-manylinux_2_27_x86_64.{MANYLINUX}" for python in PYTHONS)
        yield Entry(index, "triton", version, tags, package="triton")


def _small() -> Iterator[Entry]:
    for libraries in NVIDIA.values():
        for name, version in libraries:
            yield Entry("default", name, version, ("py3-none-manylinux_2_27_x86_64",))
    for name, (version, package) in SMALL.items():
        yield Entry("default", name, version, package=package)
    yield Entry("default", "xgrammar", XGRAMMAR_OLD, package="xgrammar")
    for version in TRANSFORMERS:
        yield Entry(
            "default", "transformers", version, requires=("tokenizers", "safetensors", "numpy"), package="transformers"
        )


def _flashinfer() -> Iterator[Entry]:
    for version, torch in FLASHINFERS.items():
        requires = ("apache-tvm-ffi<0.2,>=0.1.6", "numpy", "nvidia-cutlass-dsl>=4.3.4", torch, "tqdm")
        yield Entry("default", "flashinfer-python", version, requires=requires, source="flashinfer")
        yield Entry("default", "flashinfer-cubin", version, package="flashinfer_cubin")
    for version in JIT_CACHES:
        yield Entry(
            "flashinfer", "flashinfer-jit-cache", version, (f"cp39-abi3-{MANYLINUX}",), package="flashinfer_jit_cache"
        )


def _sglang() -> Iterator[Entry]:
    new = (
        "flashinfer_cubin==0.6.11.post1", "flashinfer_python==0.6.11.post1", "numpy", "sglang-kernel==0.4.2.post2",
        "torch==2.11.0", "torchaudio==2.11.0", "torchvision", "transformers==5.6.0", "xgrammar==0.1.32",
    )  # fmt: skip
    platform = tuple(f"{python}-{python}-manylinux_2_34_x86_64" for python in ("cp311", "cp312"))
    yield Entry("default", "sglang", "0.5.12.post1", platform, new, ">=3.11", source="engine")
    old = (
        "flashinfer_cubin==0.6.3", "flashinfer_python==0.6.3", "numpy", "sgl-kernel==0.3.21",
        "torch==2.9.1", "torchaudio==2.9.1", "torchvision", "transformers==4.57.1", "xgrammar==0.1.27",
    )  # fmt: skip
    yield Entry("default", "sglang", "0.5.9", requires=old, package="sglang")


def _kernel() -> Iterator[Entry]:
    tags = ("cp310-abi3-manylinux2014_x86_64",)
    yield Entry("default", "sglang-kernel", "0.4.2.post2", tags, source="sgl_kernel")
    yield Entry("default", "sgl-kernel", "0.3.21", tags, package="sgl_kernel")


def entries() -> list[Entry]:
    """Every version of every project of the three indexes."""
    return [*_torch(), *_triton(), *_small(), *_flashinfer(), *_sglang(), *_kernel()]
