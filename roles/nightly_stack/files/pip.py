# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the pip that python3-venv brings, without installing it: python3 -c PROGRAM install ...

venv would install it from a wheel that lies beside the standard library (in sysconfig's WHEEL_PKG_DIR on Debian, else
in ensurepip's own folder), with setuptools, only to fetch uv: half as long again as running it from there.
"""

import ensurepip
import pathlib
import runpy
import sys
import sysconfig

folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), pathlib.Path(ensurepip.__file__).parent / "_bundled"]
wheels = [wheel for folder in folders if folder for wheel in sorted(pathlib.Path(folder).glob("pip-*.whl"))]
if not wheels:
    sys.exit(f"no wheel of pip in {' or '.join(map(str, filter(None, folders)))}; python3-venv brings it")
sys.path.insert(0, str(wheels[0]))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
