"""Run by the interpreter of a release: what a kernel is linked to, as one line of JSON."""

import json
import sys
import sysconfig

import torch

try:
    cxx11_abi = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
except AttributeError:
    # Every wheel of torch since 2.7 has the new ABI.
    cxx11_abi = True

print()
print(
    json.dumps(
        {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cxx11_abi": cxx11_abi,
            "python_abi": sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
        }
    )
)
