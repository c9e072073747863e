"""Mutants that nobody wrote: cosmic-ray's operators, and one of our own, over every function of a module.

What stands outside functions is left alone: a constant there is a value of the design, which tests read as well.
"""

import ast
import difflib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

COMPARISONS = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
ARITHMETIC = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr LShift_RShift"
UNARY = "Delete_Not Delete_USub"
OTHERS = (
    "AddNot ReplaceAndWithOr ReplaceOrWithAnd ReplaceTrueWithFalse ReplaceFalseWithTrue NumberReplacer ZeroIterationForLoop "
    "ReplaceBreakWithContinue ReplaceContinueWithBreak ExceptionReplacer"
)
"""Of cosmic-ray's 200 those of which each tells something else: at a comparison its edge and its opposite."""

Point = tuple[int, int]


class Drop(Operator):  # type: ignore[misc]  # the library has no types
    """Leaves a statement out: a call, or a change of something that exists already."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Point, Point]]:
        """Where."""
        if node.type != "simple_stmt":
            return
        first = node.children[0]
        # a name that is not bound would be noticed by any test
        known = first.type == "expr_stmt" and (
            first.children[0].type != "name" or first.children[1].get_code(False) != "="
        )
        if known or first.type in {"atom_expr", "power", "del_stmt"}:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """With ``pass`` in its place, over as many lines."""
        del index
        node.children[0] = get_ast(node.children[0].get_first_leaf().prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For cosmic-ray's own tests."""
        return (Example("f(x)\n", "pass\n"),)


class Mutant(NamedTuple):
    """One change in one function of one file. ``old`` and ``new``: the lines that differ, without indentation."""

    file: str
    function: str
    operator: str
    old: str
    new: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same when lines move."""
        return self.file, self.function, self.old, self.new

    @property
    def module(self) -> str:
        """As it is imported."""
        return self.file.removeprefix("providers/").removesuffix(".py").replace("/", ".")


class Place(NamedTuple):
    """Where an operator can be applied."""

    file: str
    function: str
    operator: str
    occurrence: int


@cache
def operators() -> dict[str, Operator]:
    """All that are used, by name."""
    names = [f"ReplaceComparisonOperator_{name}" for name in COMPARISONS.split()]
    names += [f"ReplaceBinaryOperator_{name}" for name in ARITHMETIC.split()]
    names += [f"ReplaceUnaryOperator_{name}" for name in UNARY.split()]
    names += OTHERS.split()
    return {"Drop": Drop()} | {name: get_operator(f"core/{name}")() for name in names}


def places(root: Path, file: str) -> Iterator[Place]:
    """Every place in the bodies of functions of a file."""
    tree = get_ast((root / file).read_text())
    nodes = [(node, _function(node)) for node in ast_nodes(tree)]
    for name, operator in operators().items():
        occurrence = 0
        for node, found in nodes:
            for start, _ in operator.mutation_positions(node):
                if found is not None and start >= found.children[-1].start_pos and not _is_no_rule(node):
                    yield Place(file, _qualified(found), name, occurrence)
                occurrence += 1


def made(root: Path, place: Place) -> Mutant | None:
    """The mutant of a place; None when it would be the same program, or none."""
    before = (root / place.file).read_text()
    after = mutate_code(before, operators()[place.operator], place.occurrence)
    if after is None or _meaning(before) == (meaning := _meaning(after)) or not meaning:
        return None
    old, new = _changed(before, after)
    return Mutant(place.file, place.function, place.operator, old, new, after)


def written(file: str, before: str, after: str) -> Mutant | None:
    """A change that somebody wrote, where it is one in the body of one function; None for any other."""
    (rest, functions), (other_rest, others) = _apart(before), _apart(after)
    different = [name for name, meaning in functions.items() if others.get(name) != meaning]
    if rest != other_rest or functions.keys() != others.keys() or len(different) != 1:
        return None
    return Mutant(file, different[0], "", *_changed(before, after), after)


def _apart(text: str) -> tuple[str, dict[str, str]]:
    """What a module means without the bodies of its functions, and each body by the function's name."""
    tree = ast.parse(text)
    bodies: dict[str, str] = {}
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    for prefix, scope in scopes:
        for node in scope.body:
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef):
                name = f"{prefix}{node.name}"
                bodies[name] = bodies.get(name, "") + "".join(map(ast.dump, node.body))
                node.body = []
    return ast.dump(tree), bodies


def _is_no_rule(node: Any) -> bool:
    """Seconds and money, where one more or less lies below what a tick tells apart; ``strict=True``, which asserts; a type."""
    if _is_annotation(node):
        return True
    if node.type == "number":
        return not node.value.isdecimal()
    return (
        node.parent is not None
        and node.parent.type == "argument"
        and node.parent.children[0].get_code(False) == "strict"
    )


def _is_annotation(node: Any) -> bool:
    """Whether it stands in the type of a variable, which no function evaluates."""
    while node.parent is not None:
        if node.parent.type == "annassign" and node is node.parent.children[1]:
            return True
        node = node.parent
    return False


def _function(node: Any) -> Any:
    """The outermost function around a node; None for what stands outside."""
    found = None
    while node is not None:
        if node.type == "funcdef":
            found = node
        node = node.parent
    return found


def _qualified(function: Any) -> str:
    names, node = [], function
    while node is not None:
        if node.type in {"funcdef", "classdef"}:
            names.append(node.name.value)
        node = node.parent
    return ".".join(reversed(names))


@cache
def _meaning(text: str) -> str:
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return ""


def _changed(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, each side as one line."""
    one, other = before.splitlines(), after.splitlines()
    old, new = [], []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag != "equal":
            old += one[a:b]
            new += other[c:d]
    return " ".join(" ".join(old).split()), " ".join(" ".join(new).split())
