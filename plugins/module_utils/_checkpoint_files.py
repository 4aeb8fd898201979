# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tensors of a checkpoint: which files hold them, whether those are whole, and the scales of the KV cache
(private).
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Limits, Section, read_json, wrong_type
from ansible_collections.blackwell.sglang.plugins.module_utils._safetensors import (
    CutShort,
    Header,
    data_size,
    read_header,
    read_scalar,
)

INDEX = "model.safetensors.index.json"
SINGLE = ("model.safetensors", "consolidated.safetensors", "pytorch_model.safetensors")

# Names of KV scales, from the exporters' and the engines' own code (facts B1). Weight, activation and indexer scales
# end otherwise or hold the word indexer.
KV_SCALE = re.compile(
    r"""(?:
    (?:self_attn|mixer|attn|attention)\.(?:k_proj\.k_scale|v_proj\.v_scale)   # ModelOpt
    |k_proj\.k_bias|v_proj\.v_bias                                            # ModelOpt NVFP4_AFFINE
    |(?:self_attn|mixer)\.(?:k_scale|v_scale|q_scale)                         # Megatron, llm-compressor, AutoFP8
    |(?:self_attn|mixer|attention)\.attn\.(?:k_scale|v_scale)                 # the engine's own form
    |\.kv_scale                                                               # AutoFP8 of old: one for both
    |(?:q|k|v)_proj\.output_scale|self_attn\.prob_output_scale                # Quark
    |self_attn\.(?:k_cache\.scale|v_cache\.scale|q\.scale)                    # HunYuan V3
    |attention\.(?:k|v)_fake_quantizer\.qscale_act                            # Mistral Large 3
    |(?:qkv_proj|qkqkv_proj)\.(?:k|v)_scale                                   # fused
    |(?:mla_attn\.mla_attn|attn_mqa)\.k_scale                                 # the engine's form for MLA
    |attention\.kv_cache_scaling_factor                                       # TensorRT-LLM
    )$""",
    re.VERBOSE,
)
# Every alternative above ends in one of these; testing the end first spares the pattern 370,000 times.
_ENDS = (
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".kv_scale",
    ".k_bias",
    ".v_bias",
    "output_scale",
    "k_cache.scale",
    "v_cache.scale",
    ".q.scale",
    ".qscale_act",
    ".kv_cache_scaling_factor",
)
# Scales of queries and of the softmax go with attention in FP8, not with what the cache stores.
_NOT_OF_THE_CACHE = ("q_scale", "q_proj.output_scale", "prob_output_scale", ".q.scale", "_bias")


@dataclasses.dataclass(frozen=True)
class Scales:
    """Scales of the KV cache.

    ``state``: absent, unit (every value is 1.0), calibrated (some are not) or unknown (values or names could not be
    read).
    ``found`` counts scale tensors, ``names`` are some of them, ``read`` how many values were read.
    """

    state: str
    found: int
    names: list[str]
    read: int = 0


@dataclasses.dataclass(frozen=True)
class Files:
    """Whether the shards are whole: ``missing`` and ``truncated`` are file names, ``size`` the bytes of whole ones."""

    complete: bool
    missing: list[str]
    truncated: list[str]
    checked: int
    size: int | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """For a module's result."""
        return {
            "complete": self.complete,
            "missing": self.missing,
            "truncated": self.truncated,
            "bytes": self.size,
        }


class Shards:
    """The safetensors files of a folder.

    ``by_tensor`` is None where names are not known without reading headers; ``total_size`` is what the index states as
    the bytes of all tensors, None where it does not.
    """

    def __init__(
        self,
        folder: str,
        limits: Limits,
        names: list[str],
        by_tensor: dict[str, str] | None,
        total_size: int | None = None,
    ) -> None:
        self.folder = folder
        self.limits = limits
        self.names = names
        self.by_tensor = by_tensor
        self.total_size = total_size
        self._headers: dict[str, Header] = {}
        self._cut: set[str] = set()  # files that verify() reported, which need not fail the reading of scales again

    @classmethod
    def find(cls, folder: str, limits: Limits) -> Shards:
        """Read the index, or find the files where there is none.

        Raises:
            SglangError: the index is unreadable, has no map, or names a file outside the folder.
        """
        index = str(pathlib.Path(folder) / INDEX)
        if pathlib.Path(index).exists():
            whole = read_json(index, limits.index)
            weight_map = Section(whole, index).section("weight_map")
            if weight_map is None:
                raise SglangError(
                    "the map of tensors is missing",
                    where=f"{index} key weight_map",
                    expected="an object from tensor to file",
                    fix="fetch the index again",
                    kind="wrong_type",
                )
            by_tensor = t.cast("dict[str, str]", weight_map.data)
            try:
                files = sorted(set(by_tensor.values()))
            except TypeError:  # a value that cannot stand in a set or be compared is no file name
                files = [value for value in by_tensor.values() if not isinstance(value, str)]
            for file in files:
                _inside(file, index, by_tensor)
            return cls(folder, limits, files, by_tensor, _total_size(whole))
        present = [name for name in SINGLE if (pathlib.Path(folder) / name).exists()]
        if not present:
            present = sorted(path.name for path in pathlib.Path(folder).glob("*.safetensors"))
        return cls(folder, limits, present[:1] if present[:1] == [SINGLE[0]] else present, None)

    def header(self, name: str) -> Header:
        """A file's header, read once."""
        if name not in self._headers:
            self._headers[name] = read_header(str(pathlib.Path(self.folder) / name), self.limits.header)
        return self._headers[name]

    def verify(self) -> Files:
        """Compare each shard's length with what its header says.

        Raises:
            SglangError: a header that lies about its length or is no JSON.
        """
        if self._sizes_add_up():
            return Files(True, [], [], len(self.names), self.total_size)
        missing, truncated = [], []
        for name in self.names:
            if not (pathlib.Path(self.folder) / name).exists():
                missing.append(name)
                continue
            try:
                header = self.header(name)
            except CutShort:
                truncated.append(name)
                self._cut.add(name)
                continue
            if header.size < header.expected_size():
                truncated.append(name)
        complete = bool(self.names) and not missing and not truncated
        size = sum((pathlib.Path(self.folder) / name).stat().st_size for name in self.names) if complete else None
        return Files(complete, missing, truncated, len(self.names), size)

    def _sizes_add_up(self) -> bool:
        """Whether every file ends with its header's last tensor and all data together is what the index states.

        Both hold for a whole checkpoint as its writers leave it, and cost two short reads a file. Only where one
        of them does not are the offsets of 370,000 tensors looked at.
        """
        if not self.total_size or not self.names:
            return False
        total = 0
        for name in self.names:
            size = data_size(str(pathlib.Path(self.folder) / name), self.limits.header)
            if size is None:
                return False
            total += size
        return total == self.total_size

    def scales(self) -> Scales:
        """Find the scales of the KV cache and, where their files are there, read their values by range."""
        by_tensor = self.by_tensor
        if by_tensor is None:
            if not self.names:
                return Scales("unknown", 0, [])
            by_tensor = {}
            for name in self.names:
                if name in self._cut:
                    return Scales("unknown", 0, [])
                header = self.header(name)
                # A header without any such end needs no parsing.
                if any(end.encode() in header.data for end in _ENDS):
                    by_tensor.update((tensor, name) for tensor in header.names() if is_kv_scale(tensor))
        found = [name for name in by_tensor if is_kv_scale(name)]
        if not found:
            return Scales("absent", 0, [])
        values, unread = [], 0
        stored = [name for name in found if not name.endswith(_NOT_OF_THE_CACHE)] or found
        by_file = collections.defaultdict(list)
        for name in stored:
            by_file[by_tensor[name]].append(name)
        for file, tensors in by_file.items():
            if file in self._cut or not (pathlib.Path(self.folder) / file).exists():
                unread += len(tensors)
                continue
            header = self.header(file)
            for tensor in tensors:
                value = read_scalar(header, tensor)
                if value is None:
                    unread += 1
                else:
                    values.append(value)
        if any(value != 1.0 for value in values):
            state = "calibrated"
        elif unread or not values:
            state = "unknown"
        else:
            state = "unit"
        return Scales(state, len(found), found[:10], len(values))


def is_kv_scale(name: str) -> bool:
    """Whether a tensor's name is that of a KV cache scale."""
    return name.endswith(_ENDS) and "indexer" not in name and KV_SCALE.search(name) is not None


def _total_size(index: t.Mapping[str, t.Any]) -> int | None:
    """metadata.total_size, where it is a number of bytes; some writers leave it out or store a float."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) if isinstance(total, (int, float)) and total == total // 1 and total > 0 else None


def _inside(file: t.Any, index: str, by_tensor: t.Mapping[str, t.Any]) -> None:
    def tensor() -> str:
        return next(name for name, value in by_tensor.items() if value == file)

    if not isinstance(file, str) or not file:
        raise wrong_type(index, f"weight_map.{tensor()}", file, "the name of a file")
    # Links are not followed: a cache of the hub keeps its files as links to elsewhere.
    parts = file.replace("\\", "/").split("/")
    if file.startswith(("/", "\\")) or ".." in parts or "\0" in file or re.match(r"^[A-Za-z]:", file):
        raise SglangError(
            f"the index names a file outside the checkpoint's folder: {file!r}",
            where=f"{index} key weight_map.{tensor()}",
            expected="a file inside the folder",
            fix="fetch the index again, and do not use this one",
            kind="outside",
        )
