# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the options of a published SGLang package from its source text, without importing it.

Two generations exist: ``parser.add_argument(...)`` calls in ``ServerArgs.add_cli_args``, and (since 0.5.15) annotated
fields ``name: A[type, Arg(...)] = default`` that ``arg_groups/arg_utils.py`` turns into such calls. Both end here as
the same rows.
Constants are followed through assignments, imports, enums and class attributes by a small evaluator; what it cannot
evaluate is an error, never a guess.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import tarfile
import typing as t
import zipfile

JSON_PARSERS = ("loads", "json_list_type", "parse_cuda_graph_config_arg")
TYPE_NAMES = {
    "str": "str",
    "int": "int",
    "float": "float",
    "human_readable_int": "human_int",
    "nullable_str": "str",
    "parse_cuda_graph_backend_arg": "str",
}
Row = dict[str, t.Any]


class Unreadable(Exception):
    """A piece of source that this reader cannot evaluate."""


class _NoDefault:
    """Stands for an absent default."""


NO_DEFAULT = _NoDefault()


class Package:
    """The Python files of a wheel or source archive."""

    def __init__(self, path: str) -> None:
        self._files: dict[str, t.Callable[[], bytes]] = {}
        if path.endswith(".whl"):
            wheel = zipfile.ZipFile(path)
            for name in wheel.namelist():
                if name.startswith("sglang/") and name.endswith(".py"):
                    self._files[name] = functools.partial(wheel.read, name)
        else:
            with tarfile.open(path) as archive:
                for member in archive:
                    name = member.name.partition("/")[2]
                    data = archive.extractfile(member) if name.startswith("sglang/") and name.endswith(".py") else None
                    if data is not None:
                        self._files[name] = functools.partial(bytes, data.read())
        self._modules: dict[str, Module] = {}

    def module(self, dotted: str) -> Module:
        """The parsed module of that name; Unreadable if the package has none."""
        if dotted not in self._modules:
            base = dotted.replace(".", "/")
            name = next((name for name in (f"{base}.py", f"{base}/__init__.py") if name in self._files), None)
            if name is None:
                raise Unreadable(f"no module {dotted}")
            self._modules[dotted] = Module(self, ast.parse(self._files[name]()))
        return self._modules[dotted]

    def modules_under(self, dotted: str) -> list[str]:
        """Dotted names of the modules directly in a sub-package, sorted."""
        base = dotted.replace(".", "/") + "/"
        return sorted(
            name[:-3].replace("/", ".")
            for name in self._files
            if name.startswith(base) and "/" not in name[len(base) :] and not name.endswith("__init__.py")
        )


class Module:
    """Top-level names of one module."""

    def __init__(self, package: Package, tree: ast.Module) -> None:
        self.package = package
        self.values: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        for node in tree.body:
            self._note(node)

    def _note(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.values[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.values[node.target.id] = node.value
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            self.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self.imports[alias.asname or alias.name] = (node.module, alias.name)

    def constant(self, node: ast.expr, scope: dict[str, t.Any] | None = None) -> t.Any:
        """The value of an expression made of constants and names of this package."""
        scope = scope or {}
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            found: list[t.Any] = []
            for entry in node.elts:
                if isinstance(entry, ast.Starred):
                    found += list(self.constant(entry.value, scope))
                else:
                    found.append(self.constant(entry, scope))
            return sorted(found) if isinstance(node, ast.Set) else found
        if isinstance(node, ast.Dict):
            return {
                self.constant(key, scope): self._lenient(value, scope)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.constant(node.operand, scope)
        if isinstance(node, ast.BinOp):
            return self._binary(node, scope)
        if isinstance(node, ast.Name):
            return self._name(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            target = node.generators[0].target
            if isinstance(target, ast.Name):
                source = self.constant(node.generators[0].iter, scope)
                return [self.constant(node.elt, {**scope, target.id: entry}) for entry in source]
        raise Unreadable(ast.unparse(node))

    def _lenient(self, node: ast.expr, scope: dict[str, t.Any]) -> t.Any:
        """Values of a dictionary of which only the keys matter (parser classes, for instance)."""
        try:
            return self.constant(node, scope)
        except Unreadable:
            return None

    def _binary(self, node: ast.BinOp, scope: dict[str, t.Any]) -> t.Any:
        left, right = self.constant(node.left, scope), self.constant(node.right, scope)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Pow):
            return left**right
        raise Unreadable(ast.unparse(node))

    def _name(self, name: str, scope: dict[str, t.Any]) -> t.Any:
        if name in scope:
            return scope[name]
        if name in self.values:
            return self.constant(self.values[name])
        if name in self.classes:
            return _Class(self, self.classes[name])
        if name in self.imports:
            module, original = self.imports[name]
            return self.package.module(module).constant(ast.Name(original))
        raise Unreadable(f"the name {name}")

    def _attribute(self, node: ast.Attribute, scope: dict[str, t.Any]) -> t.Any:
        owner = self.constant(node.value, scope)
        if isinstance(owner, _Class):
            return owner.attribute(node.attr)
        if isinstance(owner, _Member) and node.attr in ("name", "value"):
            return owner.name if node.attr == "name" else owner.value
        raise Unreadable(ast.unparse(node))

    def _call(self, node: ast.Call, scope: dict[str, t.Any]) -> t.Any:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("keys", "lower", "copy", "values"):
            owner = self.constant(function.value, scope)
            if function.attr == "lower":
                return str(owner).lower()
            return list(owner.values()) if function.attr == "values" else list(owner)
        if (
            isinstance(function, ast.Name)
            and len(node.args) == 1
            and function.id in ("list", "sorted", "tuple", "set", "frozenset")
        ):
            value = self.constant(node.args[0], scope)
            entries = value.members() if isinstance(value, _Class) else list(value)
            return sorted(entries) if function.id in ("sorted", "set", "frozenset") else entries
        if isinstance(function, ast.Name) and not node.args and function.id in self.functions:
            return self._function(self.functions[function.id])
        if isinstance(function, ast.Name) and function.id == "_declared_default":
            return None  # the default of the field itself, which the caller reads there
        raise Unreadable(ast.unparse(node))

    def _function(self, function: ast.FunctionDef) -> t.Any:
        """What a function without arguments returns at its end: lazy lists of choices are written so."""
        inner = Module(self.package, ast.Module(body=[], type_ignores=[]))
        inner.values, inner.classes = dict(self.values), dict(self.classes)
        inner.imports, inner.functions = dict(self.imports), self.functions
        for statement in function.body:
            inner._note(statement)
        last = function.body[-1]
        if isinstance(last, ast.Return) and last.value is not None:
            return inner.constant(last.value)
        raise Unreadable(f"the function {function.name}")


class _Member:
    """A member of an enumeration."""

    def __init__(self, name: str, value: t.Any) -> None:
        self.name, self.value = name, value


class _Class:
    """A class: attributes, or members if it is an enumeration."""

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module, self.node = module, node

    def _is_enum(self) -> bool:
        return any("Enum" in ast.unparse(base) for base in self.node.bases)

    def members(self) -> list[_Member]:
        if not self._is_enum():
            raise Unreadable(f"class {self.node.name} is no enumeration")
        found = []
        for number, (name, value) in enumerate(_assignments(self.node), 1):
            automatic = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("auto")
            found.append(_Member(name, number if automatic else self.module.constant(value)))
        return found

    def __iter__(self) -> t.Iterator[_Member]:
        return iter(self.members())

    def attribute(self, name: str) -> t.Any:
        if self._is_enum():
            return next(member for member in self.members() if member.name == name)
        for own, value in _assignments(self.node):
            if own == name:
                return field_default(self.module, value)
        raise Unreadable(f"{self.node.name}.{name}")


def _assignments(node: ast.ClassDef) -> t.Iterator[tuple[str, ast.expr]]:
    for entry in node.body:
        if isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
            yield entry.targets[0].id, entry.value
        elif isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name) and entry.value is not None:
            yield entry.target.id, entry.value


def field_default(module: Module, node: ast.expr | None) -> t.Any:
    """A field's default; what only exists at run time (a computed one) counts as None."""
    if node is None:
        return NO_DEFAULT
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("field"):
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if "default" in keywords:
            return field_default(module, keywords["default"])
        return []
    try:
        value = module.constant(node)
    except Unreadable:
        return None
    return value.value if isinstance(value, _Member) else value


def read_options(package: Package) -> dict[str, Row]:
    """Field name to row (spellings, kind, type, choices, default, const, required, deprecated)."""
    module = package.module("sglang.srt.server_args")
    rows: dict[str, Row] = {}
    for owner, node in _field_classes(package, module):
        for field, row in _annotated_rows(owner, node):
            rows[field] = row
    server_args = module.classes["ServerArgs"]
    functions = {entry.name: entry for entry in server_args.body if isinstance(entry, ast.FunctionDef)}
    aliases = _dest_to_field(functions["from_cli_args"])
    scope: dict[str, t.Any] = {}
    for statement in functions["add_cli_args"].body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            # What cannot be evaluated is a piece of help text; if a choice needed it, evaluating the choice fails.
            with contextlib.suppress(Unreadable):
                scope[statement.targets[0].id] = module.constant(statement.value, scope)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                field, row = _manual_row(module, call, scope, aliases)
                if row["spellings"][0] not in {name for known in rows.values() for name in known["spellings"]}:
                    _add_manual(rows, field, row)
    return rows


def _add_manual(rows: dict[str, Row], field: str, row: Row) -> None:
    """A second registration for one field is an alias kept for old command lines: a row under its own name."""
    if field in rows:
        own = row["spellings"][0].lstrip("-").replace("-", "_")
        row["sets"] = field
        field = own
    rows[field] = row


def _field_classes(package: Package, module: Module) -> t.Iterator[tuple[Module, ast.ClassDef]]:
    yield module, module.classes["ServerArgs"]
    for dotted in package.modules_under("sglang.srt.arg_groups.fields"):
        owner = package.module(dotted)
        for node in owner.classes.values():
            yield owner, node


def _dest_to_field(function: ast.FunctionDef) -> dict[str, str]:
    """``args.tp_size = args.tensor_parallel_size``: which field an argparse destination ends in."""
    found = {}
    for node in function.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            target = node.targets[0]
            if isinstance(target, ast.Attribute):
                found[node.value.attr] = target.attr
    return found


def _annotated_rows(module: Module, node: ast.ClassDef) -> t.Iterator[tuple[str, Row]]:
    for entry in node.body:
        if not (isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)):
            continue
        annotation = entry.annotation
        if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")):
            continue
        if not isinstance(annotation.slice, ast.Tuple):
            continue
        kind, metadata = annotation.slice.elts[0], annotation.slice.elts[1:]
        argument = next(
            (item for item in metadata if isinstance(item, ast.Call) and ast.unparse(item.func) == "Arg"), None
        )
        plain = any(isinstance(item, (ast.Constant, ast.JoinedStr, ast.BinOp)) for item in metadata)
        if argument is None and not plain:
            continue
        keywords = {word.arg: word.value for word in argument.keywords if word.arg} if argument is not None else {}
        if "no_cli" in keywords and module.constant(keywords["no_cli"]):
            continue
        field = entry.target.id
        default = field_default(module, entry.value)
        yield field, _annotated_row(module, field, kind, keywords, default)


def _annotated_row(module: Module, field: str, kind: ast.expr, keywords: dict[str, ast.expr], default: t.Any) -> Row:
    main = module.constant(keywords["cli_name"]) if "cli_name" in keywords else "--" + field.replace("_", "-")
    aliases = module.constant(keywords["aliases"]) if "aliases" in keywords else []
    row: Row = {"spellings": [main, *(aliases or [])]}
    if "action" in keywords:
        row["kind"], row["type"] = _kind_of_action(keywords["action"]), "str"
        more = module.constant(keywords["action_kwargs"]) if "action_kwargs" in keywords else {}
        if more.get("nargs"):
            row["kind"] = _kind_of_nargs(more["nargs"])
    else:
        inner = _without_optional(kind)
        literal = _subscript(inner, "Literal")
        element = _subscript(inner, "List") or _subscript(inner, "list")
        has_parser = "type_parser" in keywords
        named = _parser_type(keywords["type_parser"]) if has_parser else ""
        if literal is not None:
            values = module.constant(literal)
            listed = values if isinstance(values, list) else [values]
            row["choices"] = [value for value in listed if value is not None]
            row["type"] = named or type(row["choices"][0]).__name__
        elif element is not None and not has_parser:
            row["kind"], row["type"] = "list", TYPE_NAMES.get(ast.unparse(element), "str")
        elif isinstance(inner, ast.Name) and inner.id == "bool" and not has_parser:
            row["kind"] = "flag"
        else:
            row["type"] = named or TYPE_NAMES.get(ast.unparse(inner), "str")
        if "nargs" in keywords and literal is None:
            row["kind"] = _kind_of_nargs(module.constant(keywords["nargs"]))
        if "choices" in keywords:
            row["choices"] = module.constant(keywords["choices"]) or row.get("choices")
        if default is NO_DEFAULT and row.get("kind", "value") != "flag":
            row["required"] = True
    if "const" in keywords:
        row["const"] = module.constant(keywords["const"])
    if "required" in keywords:
        row["required"] = module.constant(keywords["required"])
    row["default"] = None if default is NO_DEFAULT else default
    return _tidy(row)


def _without_optional(node: ast.expr) -> ast.expr:
    inner = _subscript(node, "Optional")
    if inner is not None:
        return inner
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and ast.unparse(node.right) == "None":
        return node.left
    return node


def _subscript(node: ast.expr, name: str) -> ast.expr | None:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] == name:
        return node.slice
    return None


def _parser_type(node: ast.expr) -> str:
    name = ast.unparse(node).rpartition(".")[2]
    if name in JSON_PARSERS:
        return "json"
    if name not in TYPE_NAMES:
        raise Unreadable(f"the type parser {name}")
    return TYPE_NAMES[name]


def _kind_of_nargs(nargs: t.Any) -> str:
    return {"+": "list", "*": "list0", "?": "optional", 0: "flag", None: "value"}[nargs]


def _kind_of_action(node: ast.expr) -> str:
    name = ast.unparse(node).strip("'\"").rpartition(".")[2]
    kinds = {
        "store_true": "flag",
        "BooleanOptionalAction": "toggle",
        "LoRAPathAction": "list0",
        "DeprecatedAction": "flag",
        "DeprecatedStoreTrueAction": "flag",
        "DeprecatedStoreConstAction": "flag",
        "DeprecatedAliasStoreAction": "value",
        "store_const": "flag",
    }
    if name not in kinds:
        raise Unreadable(f"the action {name}")
    return kinds[name]


def _manual_row(module: Module, call: ast.Call, scope: dict[str, t.Any], aliases: dict[str, str]) -> tuple[str, Row]:
    spellings = [module.constant(word, scope) for word in call.args]
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    first = next((word for word in spellings if word.startswith("--")), spellings[0])
    dest = module.constant(keywords["dest"]) if "dest" in keywords else first.lstrip("-").replace("-", "_")
    row: Row = {"spellings": spellings}
    if "action" in keywords:
        row["kind"] = _kind_of_action(keywords["action"])
        if "Deprecated" in ast.unparse(keywords["action"]):
            row["deprecated"] = _deprecation(module, keywords, scope)
    if "nargs" in keywords:
        row["kind"] = _kind_of_nargs(module.constant(keywords["nargs"], scope))
    if row.get("kind") not in ("flag", "toggle"):
        row["type"] = _parser_type(keywords["type"]) if "type" in keywords else "str"
    if "choices" in keywords:
        row["choices"] = module.constant(keywords["choices"], scope)
    if "const" in keywords:
        row["const"] = module.constant(keywords["const"], scope)
    if "required" in keywords:
        row["required"] = module.constant(keywords["required"])
    if ast.unparse(keywords.get("help", ast.Constant(None))).endswith("SUPPRESS"):
        row["hidden"] = True
    row["default"] = field_default(module, keywords["default"]) if "default" in keywords else None
    if row["default"] is NO_DEFAULT or "SUPPRESS" in ast.unparse(keywords.get("default", ast.Constant(None))):
        row["default"] = None
    return aliases.get(dest, dest), _tidy(row)


def _deprecation(module: Module, keywords: dict[str, ast.expr], scope: dict[str, t.Any]) -> str:
    for key in ("new_flag", "help"):
        if key in keywords:
            try:
                return str(module.constant(keywords[key], scope))
            except Unreadable:
                continue
    return "deprecated"


def _tidy(row: Row) -> Row:
    """Leave out what is the usual, so that rows stay short and equal ones compare equal."""
    if row.get("choices"):
        row["choices"] = [entry.value if isinstance(entry, _Member) else entry for entry in row["choices"]]
    usual = {"kind": "value", "type": "str", "default": None, "required": False, "choices": None, "deprecated": ""}
    if row.get("kind") in ("flag", "toggle"):
        usual["default"] = False if row.get("default") is False else None
        row.pop("type", None)
    return {key: value for key, value in row.items() if key == "spellings" or value != usual.get(key, NO_DEFAULT)}
