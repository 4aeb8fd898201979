"""Build the stand-in wheels of the lab's package indexes.

    python3 tests/lab/wheels/build.py DIR              # DIR/default, DIR/pytorch, DIR/flashinfer: wheels and .metadata
    python3 tests/lab/wheels/build.py DIR --kernel no  # without compiling the kernel library
    python3 tests/lab/wheels/build.py --self-test      # into a temporary folder, then a venv, then a running engine

The wheels are small, valid and the same bytes at every build (the compiled kernel library aside). Each wheel has its
PEP 658 file beside it; whoever serves a folder groups the wheels by project.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import catalogue
import wheelfile

ENGINE = HERE.parent / "engine"
INDEXES = ("default", "pytorch", "flashinfer")
CUDA_PLACES = ("/usr/local/cuda/bin/nvcc", "nvcc")
SKIPPED = ("__pycache__", ".pyc")


def _tree(folder: Path, values: dict[str, str]) -> dict[str, bytes]:
    """Files below `folder` by relative path, with @NAME@ replaced."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or any(mark in str(path) for mark in SKIPPED):
            continue
        data = path.read_bytes()
        for name, value in values.items():
            data = data.replace(f"@{name}@".encode(), value.encode())
        files[str(path.relative_to(folder))] = data
    return files


def _nvcc() -> str | None:
    for place in CUDA_PLACES:
        found = shutil.which(place)
        if found:
            return found
    return None


def compile_kernel() -> bytes | None:
    """Compile the kernel library for sm_90, sm_100a and sm_120a; None without a CUDA 13 compiler."""
    nvcc = _nvcc()
    if nvcc is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "src" / "sgl_kernel" / "csrc" / "common_ops.cu", folder)
        command = [nvcc, "-shared", "-O2", "-std=c++17", "-cudart", "shared", "-Xcompiler", "-fPIC", "--threads=1"]
        for architecture in ("90", "100a", "120a"):
            command.append(f"-gencode=arch=compute_{architecture},code=sm_{architecture}")
        rpath = "$ORIGIN/../../nvidia/cu13/lib:/usr/local/cuda/lib64:/usr/local/cuda-13.0/lib64"
        command += ["-Xlinker", f"-rpath={rpath}", "-o", "common_ops.abi3.so", "common_ops.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"the kernel library was not compiled, the wheel goes without it:\n{done.stderr}", file=sys.stderr)
            return None
        return (Path(folder) / "common_ops.abi3.so").read_bytes()


@dataclass(frozen=True)
class Native:
    """Binaries that come from a CUDA toolkit, where there is one."""

    kernel: bytes | None = None
    cudart: bytes | None = None


def find_cudart() -> bytes | None:
    """The toolkit's CUDA 13 runtime: like the real wheel of that name, the stand-in carries it into the venv."""
    for base in (Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-13*"))):
        path = base / "lib64" / "libcudart.so.13"
        if path.exists():
            return path.read_bytes()
    return None


def contents(entry: catalogue.Entry, native: Native) -> tuple[dict[str, bytes], str]:
    """Return the files of a wheel and its entry points."""
    if entry.source == "engine":
        files = {f"sglang/{path}": data for path, data in _tree(ENGINE / "sglang", {}).items()}
        return files, "[console_scripts]\nsglang = sglang.launch_server:console\n"
    if entry.source == "torch":
        text = (
            f'__version__ = "{entry.values["VERSION"]}"\ncuda = "{entry.values["CUDA"]}"\n'
            f'git_version = "{entry.values["GIT"]}"\nhip = None\nxpu = None\ndebug = False\n'
        )
        return {**_tree(HERE / "src" / "torch", entry.values), "torch/version.py": text.encode()}, ""
    if entry.source == "flashinfer":
        version = f'__version__ = "{entry.version}"\n'.encode()
        return {**_tree(HERE / "src" / "flashinfer", {}), "flashinfer/version.py": version}, ""
    if entry.source == "sgl_kernel":
        files = {
            path: data for path, data in _tree(HERE / "src" / "sgl_kernel", {}).items() if not path.startswith("csrc/")
        }
        files["sgl_kernel/version.py"] = f'__version__ = "{entry.version}"\n'.encode()
        if native.kernel is not None:
            files["sgl_kernel/sm100/common_ops.abi3.so"] = native.kernel
        return files, ""
    if entry.name == "nvidia-cuda-runtime" and native.cudart is not None:
        return {"nvidia/cu13/lib/libcudart.so.13": native.cudart}, ""
    if entry.package is None:
        return {}, ""
    text = f'"""Stand-in of {entry.name}: its version and nothing else."""\n\n__version__ = "{entry.version}"\n'
    helper = {
        "flashinfer_cubin": "get_cubin_dir",
        "flashinfer_jit_cache": "get_jit_cache_dir",
        "numpy": "get_include",  # scikit-build-core asks for it when it configures
    }.get(entry.package)
    if helper:
        text += f'\n\ndef {helper}() -> str:\n    """Folder of the binaries."""\n    return __path__[0]\n'
    return {f"{entry.package}/__init__.py": text.encode()}, ""


def build(folder: Path, *, kernel: bool = True) -> list[Path]:
    """Write every wheel below `folder` and return their paths."""
    native = Native(compile_kernel(), find_cudart()) if kernel else Native()
    written = []
    for entry in catalogue.entries():
        target = folder / entry.index
        target.mkdir(parents=True, exist_ok=True)
        files, entry_points = contents(entry, native)
        for tag in entry.tags:
            written.append(
                wheelfile.write(
                    target,
                    name=entry.name,
                    version=entry.version,
                    tag=tag,
                    files=files,
                    requires=entry.requires,
                    requires_python=entry.requires_python,
                    entry_points=entry_points,
                )
            )
    return written


def self_test() -> None:
    """Install the nightly stack from the folders into a venv with pip, import it, start its engine, ask a question."""
    with tempfile.TemporaryDirectory(prefix="lab-wheels-") as name:
        folder = Path(name)
        print(f"{len(build(folder / 'wheels', kernel=False))} wheels")
        interpreter = find_python()
        if interpreter is None:
            raise SystemExit("no Python 3.11 or 3.12 here, and the wheels of sglang 0.5.12.post1 are for those two")
        python = make_venv(folder / "venv", interpreter)
        places = [f"--find-links={folder / 'wheels' / index}" for index in INDEXES]
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", *places]
        subprocess.run([*pip, "sglang==0.5.12.post1", "flashinfer-jit-cache==0.6.11.post1+cu130"], check=True)
        subprocess.run([*pip, "--no-deps", "torch==2.12.0.dev20260307+cu130"], check=True)
        words = "import torch, flashinfer, sgl_kernel, sglang\n"
        words += "print(torch.__version__, flashinfer.__version__, sglang.__version__)"
        print(subprocess.run([python, "-c", words], check=True, capture_output=True, text=True).stdout.strip())
        print(ask_engine(python, folder))


def find_python() -> str | None:
    """An interpreter that the platform wheels of sglang are for and that can make virtual environments."""
    code = "import sys, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))"
    for name in (sys.executable, "python3.12", "python3.11", "python3", "/usr/bin/python3"):
        path = shutil.which(name)
        if path and not subprocess.run([path, "-c", code], capture_output=True, check=False).returncode:
            return path
    return None


def make_venv(folder: Path, interpreter: str) -> Path:
    """Make a virtual environment and return its interpreter."""
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def ask_engine(python: Path, folder: Path) -> str:
    """Start the installed engine on a small checkpoint, wait for it, return its answer."""
    subprocess.run([sys.executable, str(HERE.parent / "checkpoint" / "write.py"), str(folder / "model")], check=True)
    (folder / "holders").mkdir()
    settings = {"time_scale": 0.005, "gpus": {"count": 8}, "holders_dir": str(folder / "holders")}
    command = [str(python), "-m", "sglang.launch_server", "--model-path", str(folder / "model"), "--port", "31999"]
    command += ["--tp-size", "8", "--attention-backend", "triton", "--quantization", "modelopt_fp4"]
    environment = {"SGLANG_STANDIN": json.dumps(settings), "PATH": "/usr/bin:/bin"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        body = json.dumps({"text": "The capital of France is"}).encode()
        for _ in range(200):
            time.sleep(0.1)
            try:
                with urllib.request.urlopen("http://127.0.0.1:31999/health", timeout=5):
                    break
            except OSError:
                continue
        request = urllib.request.Request("http://127.0.0.1:31999/generate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            return str(json.load(reply)["text"]).strip()
    finally:
        server.terminate()
        server.wait(20)


def main() -> int:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(description="Build the stand-in wheels of the lab's indexes.")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--kernel", choices=("yes", "no"), default="yes", help="take binaries from CUDA where it is")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
    elif args.folder is None:
        parser.error("name a folder, or --self-test")
    else:
        for path in build(args.folder, kernel=args.kernel == "yes"):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
