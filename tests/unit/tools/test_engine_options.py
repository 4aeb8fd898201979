"""The reader of the engine's source, on small packages of both generations written here."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import types
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHOICES = """
BASE = ["one", "two"]
MORE = BASE + ["three"]
"""
PARSERS = """
class Shade(Enum):
    LIGHT = auto()
    DARK = auto()

class Table:
    names = {"alpha": object, "beta": object}
"""
CALLS = """
import argparse
from sglang.srt.choices import MORE
from sglang.srt.parsers import Shade, Table

@dataclasses.dataclass
class ServerArgs:
    path: str
    tp_size: int = 1
    mode: str = "one"
    old: bool = False

    @staticmethod
    def add_cli_args(parser):
        known = list(Table.names.keys())
        parser.add_argument("--path", "--model", type=str, required=True, help="x")
        parser.add_argument("--tensor-parallel-size", "--tp", type=int, default=ServerArgs.tp_size)
        parser.add_argument("--mode", choices=MORE, default=ServerArgs.mode)
        parser.add_argument("--parser", choices=["auto"] + known)
        parser.add_argument("--shade", choices=[shade.name.lower() for shade in Shade])
        parser.add_argument("--sizes", type=int, nargs="+")
        parser.add_argument("--sum", nargs="?", const="", default=None)
        parser.add_argument("--strict", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("--quiet", action="store_true")
        parser.add_argument("--limits", type=json.loads)
        parser.add_argument("--secret-port", type=int, help=argparse.SUPPRESS)
        parser.add_argument("--gone", action=DeprecatedAction, help="Gone; use --mode.")

    @classmethod
    def from_cli_args(cls, args):
        args.tp_size = args.tensor_parallel_size
        return cls()
"""
FIELDS = """
from sglang.srt.choices import MORE

class Group(msgspec.Struct):
    path: A[str, Arg(help="x", aliases=["--model"])]
    tp_size: A[int, "how many"] = 1
    mode: A[Literal["one", "two"], "which"] = "one"
    backend: A[Optional[str], Arg(help="x", choices=MORE, cli_name="--short-backend")] = None
    sizes: A[Optional[List[int]], "several"] = None
    quiet: A[bool, "no noise"] = False
    strict: A[Optional[bool], Arg(action=argparse.BooleanOptionalAction)] = None
    limits: A[Optional[dict], Arg(type_parser=json.loads)] = None
    hidden: A[bool, Arg(no_cli=True)] = False
    inner: Derived = None
"""
SERVER = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--old-size", dest="tp_size", type=int, action=DeprecatedAliasStoreAction,
                            new_flag="--tp-size")

    @classmethod
    def from_cli_args(cls, args):
        return cls()
"""


@pytest.fixture(scope="module")
def reader() -> types.ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("engine_source")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def tool() -> types.ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("engine_options")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def fetcher(tool: types.ModuleType) -> types.ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("engine_packages")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def package(folder: pathlib.Path, **files: str) -> str:
    path = folder / "sglang-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("sglang/srt/choices.py", CHOICES)
        wheel.writestr("sglang/srt/parsers.py", PARSERS)
        for name, text in files.items():
            wheel.writestr(f"sglang/srt/{name.replace('__', '/')}.py", text)
    return str(path)


def test_calls_of_add_argument_are_read(reader: types.ModuleType, tmp_path: pathlib.Path) -> None:
    rows = reader.read_options(reader.Package(package(tmp_path, server_args=CALLS)))
    assert rows == {
        "path": {"spellings": ["--path", "--model"], "required": True},
        "tp_size": {"spellings": ["--tensor-parallel-size", "--tp"], "type": "int", "default": 1},
        "mode": {"spellings": ["--mode"], "choices": ["one", "two", "three"], "default": "one"},
        "parser": {"spellings": ["--parser"], "choices": ["auto", "alpha", "beta"]},
        "shade": {"spellings": ["--shade"], "choices": ["light", "dark"]},
        "sizes": {"spellings": ["--sizes"], "kind": "list", "type": "int"},
        "sum": {"spellings": ["--sum"], "kind": "optional", "const": ""},
        "strict": {"spellings": ["--strict"], "kind": "toggle", "default": True},
        "quiet": {"spellings": ["--quiet"], "kind": "flag"},
        "limits": {"spellings": ["--limits"], "type": "json"},
        "secret_port": {"spellings": ["--secret-port"], "type": "int", "hidden": True},
        "gone": {"spellings": ["--gone"], "kind": "flag", "deprecated": "Gone; use --mode."},
    }


def test_annotated_fields_are_read(reader: types.ModuleType, tmp_path: pathlib.Path) -> None:
    path = package(tmp_path, server_args=SERVER, arg_groups__fields__group=FIELDS)
    assert reader.read_options(reader.Package(path)) == {
        "path": {"spellings": ["--path", "--model"], "required": True},
        "tp_size": {"spellings": ["--tp-size"], "type": "int", "default": 1},
        "mode": {"spellings": ["--mode"], "choices": ["one", "two"], "default": "one"},
        "backend": {"spellings": ["--short-backend"], "choices": ["one", "two", "three"]},
        "sizes": {"spellings": ["--sizes"], "kind": "list", "type": "int"},
        "quiet": {"spellings": ["--quiet"], "kind": "flag"},
        "strict": {"spellings": ["--strict"], "kind": "toggle"},
        "limits": {"spellings": ["--limits"], "type": "json"},
        "old_size": {"spellings": ["--old-size"], "type": "int", "sets": "tp_size", "deprecated": "--tp-size"},
    }


def test_what_cannot_be_evaluated_is_an_error_and_no_guess(reader: types.ModuleType, tmp_path: pathlib.Path) -> None:
    text = CALLS.replace("choices=MORE", "choices=read_from_the_network()")
    with pytest.raises(reader.Unreadable, match="read_from_the_network"):
        reader.read_options(reader.Package(package(tmp_path, server_args=text)))


def test_equal_rows_of_several_versions_become_one(tool: types.ModuleType) -> None:
    row = {"spellings": ["--a"], "choices": ["x", "y"]}
    other = {"spellings": ["--a"], "choices": ["x"]}
    table = tool.build_table({"1": {"a": row}, "2": {"a": other}, "3": {"a": row}, "4": {"a": row}}, {})
    assert [(entry["in"], table["choices"][entry["choices"]]) for entry in table["options"]["a"]] == [
        ([[0, 0], [2, 3]], ["x", "y"]),
        ([[1, 1]], ["x"]),
    ]
    assert json.loads(tool.write_table(table)) == table
    assert [tool.rows_of(table, version)["a"]["choices"] for version in "1234"] == [
        ["x", "y"],
        ["x"],
        ["x", "y"],
        ["x", "y"],
    ]


def test_a_saved_help_is_compared_flag_by_flag(tool: types.ModuleType) -> None:
    text = (
        "noise\nusage: x [-h] --path PATH [--mode {one,two}]\n         [--quiet] [--strict | --no-strict]\n\noptions:\n"
    )
    rows = {
        "path": {"spellings": ["--path"]},
        "mode": {"spellings": ["--mode"], "choices": ["one", "two"]},
        "quiet": {"spellings": ["--quiet"], "kind": "flag"},
        "strict": {"spellings": ["--strict"], "kind": "toggle"},
    }
    assert tool.compare_help(rows, text) == []
    assert tool.compare_help({**rows, "mode": {"spellings": ["--mode"], "choices": ["one"]}}, text) == [
        "--mode: the help lists ['one', 'two'], the table ['one']"
    ]
    del rows["quiet"]
    assert tool.compare_help({**rows, "new": {"spellings": ["--new"]}}, text) == [
        "--quiet: in the help, not in the table",
        "--new: in the table, not in the help",
    ]


# The published packages that `make test-full` fetches; the table is held against the source of each.
PUBLISHED = ("0.5.9", "0.5.12.post1", "0.5.17", "0.5.23")


@pytest.fixture
def packages() -> pathlib.Path:
    """The folder of the published packages."""
    folder = os.environ.get("SGLANG_PACKAGES")
    if not folder:
        pytest.skip("SGLANG_PACKAGES names no folder with published packages; `make unit-full` fetches and names one")
    return pathlib.Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("version", PUBLISHED)
def test_the_shipped_table_is_what_a_published_package_gives(
    reader: types.ModuleType, tool: types.ModuleType, packages: pathlib.Path, version: str
) -> None:
    package = reader.Package(str(tool.find_package(version, packages)))
    read = reader.read_options(package)
    assert len(read) > 300
    table = json.loads(tool.TABLE.read_text(encoding="utf-8"))
    shipped = {
        field: {key: value for key, value in row.items() if key != "in" and (key, value) != ("choices", None)}
        for field, row in tool.rows_of(table, version).items()
    }
    assert shipped == read


@pytest.mark.slow
def test_a_package_whose_bytes_are_others_is_not_taken(
    fetcher: types.ModuleType, packages: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    locked = fetcher.locked()
    assert set(PUBLISHED) == set(locked)
    for version, digest in locked.items():
        assert fetcher.there(version, digest, packages)
    (path,) = packages.glob("sglang-0.5.9-*.whl")
    (tmp_path / path.name).write_bytes(path.read_bytes()[:-1])
    assert not fetcher.there("0.5.9", locked["0.5.9"], tmp_path)
    with pytest.raises(SystemExit, match=r"(?s)sglang 0\.5\.9 .*could not be fetched:.*DO NOT MATCH THE HASHES"):
        fetcher.fetch("0.5.9", "0" * 64, tmp_path)
