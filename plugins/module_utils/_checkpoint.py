# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint's metadata: its configuration, what it declares about quantization, its scales (private).

Reads config.json, hf_quant_config.json, quant_cfg.json, the index and headers of safetensors files; never a weight.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint_files import Files, Scales, Shards
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint_quant import Declaration, declarations
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Limits, Section, read_json, wrong_type

CONFIG = "config.json"
QUANT_FILES = ("hf_quant_config.json", "quant_cfg.json")
# Where a multimodal model keeps the configuration of its language model (facts D1); Qwen3-Omni nests twice.
TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
_DTYPES = {"half": "float16", "fp16": "float16", "float": "float32", "bf16": "bfloat16"}


@dataclasses.dataclass
class Checkpoint:
    """What the files of a checkpoint say.

    ``config`` and ``text`` are config.json and its language model's part (the same object where it is not nested);
    ``documents`` holds every quantization file that exists, by name.
    """

    path: str
    config: dict[str, t.Any]
    text: dict[str, t.Any]
    documents: dict[str, dict[str, t.Any]] = dataclasses.field(default_factory=dict)
    declared: list[Declaration] = dataclasses.field(default_factory=list)
    scales: Scales | None = None
    files: Files | None = None
    # (version, dtype, explanation) of an earlier reading, for a checkpoint rebuilt from a registered result
    known_auto: tuple[str, str, str] | None = None

    @property
    def architectures(self) -> list[str]:
        """Model classes, most often one."""
        found = Section(self.config, self._where(CONFIG)).strings("architectures")
        return found or Section(self.text, self._where(CONFIG)).strings("architectures") or []

    @property
    def model_type(self) -> str | None:
        """transformers' name of the model."""
        return Section(self.config, self._where(CONFIG)).text("model_type")

    @property
    def model_dtype(self) -> str | None:
        """dtype of the weights as the configuration names it: ``bfloat16``, or None where it is silent."""
        for data in (self.config, self.text):
            section = Section(data, self._where(CONFIG))
            value = section.text("dtype") or section.text("torch_dtype")
            if value and value != "auto":
                word = value.removeprefix("torch.").lower()
                return _DTYPES.get(word, word)
        return None

    def _where(self, name: str) -> str:
        return str(pathlib.Path(self.path) / name) if self.path else name


def read(
    path: str,
    limits: Limits | None = None,
    verify_files: bool = False,
    scales: bool = True,
    progress: t.Callable[[str], None] | None = None,
) -> Checkpoint:
    """Read a checkpoint's folder.

    Args:
        path: the folder.
        limits: sizes up to which files are read.
        verify_files: compare every shard's length with its header.
        scales: look for the scales of the KV cache in names and values of tensors.
        progress: told about each step.

    Raises:
        SglangError: no folder or no config.json; a file that is unreadable, too large, not UTF-8 or not JSON; a value
        of
            a type that makes no sense; a damaged safetensors header; an index that names a file outside the folder.
    """
    limits = limits or Limits()
    if not pathlib.Path(path).is_dir():
        raise SglangError(
            "there is no such folder",
            where=path,
            expected="the folder of a checkpoint",
            fix="correct model_path, or fetch the checkpoint first",
            kind="missing",
        )
    config_path = str(pathlib.Path(path) / CONFIG)
    if not pathlib.Path(config_path).exists():
        raise SglangError(
            "the file is missing",
            where=config_path,
            expected="the configuration of a model",
            fix="fetch the checkpoint again, or correct the path",
            kind="missing",
        )
    config = read_json(config_path, limits.config)
    documents = {}
    for name in QUANT_FILES:
        file = str(pathlib.Path(path) / name)
        if pathlib.Path(file).exists():
            if progress:
                progress(f"reading {file}")
            documents[name] = read_json(file, limits.quantization)
    checkpoint = from_config(config, path=path, documents=documents)
    if scales or verify_files:
        shards = Shards.find(path, limits)
        if verify_files:
            checkpoint.files = shards.verify()
        if scales:
            checkpoint.scales = shards.scales()
    return checkpoint


def from_config(
    config: t.Mapping[str, t.Any], path: str = "", documents: t.Mapping[str, dict[str, t.Any]] | None = None
) -> Checkpoint:
    """The same from JSON at hand: config.json's object, and quantization files by name.

    Raises:
        SglangError: a value of a type that makes no sense.
    """
    where = str(pathlib.Path(path) / CONFIG) if path else CONFIG
    if not isinstance(config, t.Mapping):
        raise wrong_type(where, "(top level)", config, "an object")
    checkpoint = Checkpoint(path, dict(config), text_config(config, where), dict(documents or {}))
    checkpoint.declared = declarations(checkpoint.config, checkpoint.documents, path)
    # Read once, so that a wrong type is found here and not in the middle of a decision.
    _rest = (checkpoint.architectures, checkpoint.model_type, checkpoint.model_dtype)
    return checkpoint


def text_config(config: t.Mapping[str, t.Any], where: str = CONFIG) -> dict[str, t.Any]:
    """The language model's part of a configuration, at most four levels down."""
    section = Section(config, where)
    for _rest in range(4):
        inner = next((found for key in TEXT_KEYS if (found := section.section(key)) is not None), None)
        if inner is None:
            break
        section = inner
    return dict(section.data)
