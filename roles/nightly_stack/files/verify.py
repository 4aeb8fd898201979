"""Run by the interpreter of a release: imports what an engine imports, in its order, and prints one line of JSON.

The order matters: torch loads the CUDA libraries that the others find loaded, and a kernel for another torch fails here
and not in the middle of a deployment.
"""

import importlib
import importlib.metadata
import json
import pathlib
import sys
import time

MODULES = {
    "torch": ["torch"],
    "flashinfer": ["flashinfer-python"],
    "sgl_kernel": ["sglang-kernel", "sgl-kernel"],
    "sglang": ["sglang"],
}


def version(names):
    for name in names:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return names[0], None


def main():
    result = {"errors": {}, "versions": {}, "seconds": {}, "torch_cuda": None, "torch_folder": "", "kernel_folder": ""}
    for module, distributions in MODULES.items():
        began = time.monotonic()
        try:
            loaded = importlib.import_module(module)
        except BaseException as error:
            result["errors"][module] = f"import {module}: {type(error).__name__}: {str(error).strip()[:600]}"
            break
        result["seconds"][module] = round(time.monotonic() - began, 2)
        name, found = version(distributions)
        if found is None:
            result["errors"][module] = f"{module} is imported, but no distribution {name} is installed"
        result["versions"][name] = found
        if module == "torch":
            result["torch_cuda"] = getattr(getattr(loaded, "version", None), "cuda", None)
            result["torch_folder"] = str(pathlib.Path(loaded.__file__).parent)
        elif module == "sgl_kernel":
            result["kernel_folder"] = str(pathlib.Path(loaded.__file__).parent)
    # What is imported may print; the result is the last line that begins with a brace.
    print()
    print(json.dumps(result))
    return 1 if result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
