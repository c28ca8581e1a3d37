"""From text to expression trees, safely: Python's syntax tree is walked, nothing is run as code."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable

from firststep.errors import InvalidParameter, nearest
from firststep.expressions import (
    ACTIVATIONS,
    CONSTANTS,
    FUNCTIONS,
    TWO_ARGUMENTS,
    Expression,
    Z,
    check_size,
    constant,
)
from firststep.handwriting import SYNONYMS, Unreadable, hint_for, in_full
from firststep.kinks import WRAPPERS
from firststep.numerics.quadrature import NotIntegrable

MAX_TEXT = 2000
MAX_DEPTH = 200
_CALLED = (*FUNCTIONS, *WRAPPERS, *TWO_ARGUMENTS)
_NAMES = (*FUNCTIONS, *CONSTANTS, "z")
_BINARY: dict[type[ast.operator], Callable[[Expression, Expression], Expression]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def parse(text: str, parameter: str = "activation") -> Expression:
    """The expression in ``text``: numbers, z, + - * / **, pi, e, functions, centered, normalized.

    A bare function name means that function of z; |z|, 2 tanh(z) and z² are understood as people
    mean them. Anything else is refused with a message that
    names ``parameter``.
    """
    allowed = "a named activation or an expression in z such as tanh(2*z) + 0.5*(z**2-1)"

    def refuse(given: str, hint: str = "") -> InvalidParameter:
        return InvalidParameter(parameter, allowed, given, hint)

    if len(text) > MAX_TEXT:
        raise refuse(text, f"{len(text)} characters; at most {MAX_TEXT}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _tree(text)
        if isinstance(tree.body, ast.Name) and _function(tree.body.id) not in _NAMES:
            name, known = tree.body.id, ", ".join(ACTIVATIONS)
            hint = hint_for(name) or nearest(name, FUNCTIONS) or f"the names are {known}"
            raise refuse(text, hint)
        made = _convert(tree.body, 0, top=True)
        check_size(made)
        return made
    except InvalidParameter:
        raise
    except OverflowError:
        raise refuse(text, "a constant overflows") from None
    except (SyntaxError, Unreadable) as error:
        plain = "it is not a complete expression"
        raise refuse(text, str(error) if isinstance(error, Unreadable) else plain) from None
    except NotIntegrable as error:
        raise refuse(text, str(error)) from None
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise refuse(text, str(error) or "too deep or too large") from None


def _tree(text: str) -> ast.Expression:
    """Python's syntax tree; of what is none, that of the text written out in full."""
    plain = text.strip().replace("^", "**")
    try:
        return ast.parse(plain, mode="eval")
    except SyntaxError:
        return ast.parse(in_full(plain, ("z", *CONSTANTS)), mode="eval")


def _function(name: str) -> str:
    return SYNONYMS.get(name, name)


def _convert(node: ast.AST, depth: int, top: bool = False) -> Expression:
    """A node of Python's syntax tree as an Expression; ``top``: a bare function name is allowed."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return constant(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id == "z":
            return Z
        if node.id in CONSTANTS:
            return constant(CONSTANTS[node.id])
        if _function(node.id) in FUNCTIONS:
            if top:
                return FUNCTIONS[_function(node.id)](Z)
            raise ValueError(f"{node.id} needs an argument, as in {node.id}(z)")
        hint = hint_for(node.id) or nearest(node.id, _CALLED) or "the variable is z"
        raise ValueError(f"unknown name {node.id!r}; {hint}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _convert(node.operand, depth + 1)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _convert(node.left, depth + 1), _convert(node.right, depth + 1)
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Name) and node.func.id not in ("z", *CONSTANTS):
            return _convert_call(_function(node.func.id), node.args, depth)
        if len(node.args) == 1:  # 2(z + 1), (z + 1)(z - 1), z(z + 1): products
            left = _convert(node.func, depth + 1)
            return left * _convert(node.args[0], depth + 1)
    kind = type(node).__name__.lower()
    raise ValueError(f"{kind} is not allowed; only arithmetic and the named functions are")


def _convert_call(name: str, arguments: list[ast.expr], depth: int) -> Expression:
    count = 2 if name in TWO_ARGUMENTS else 1
    if name not in _CALLED:
        hint = (
            hint_for(name) or nearest(name, _CALLED) or f"the functions are {', '.join(FUNCTIONS)}"
        )
        raise ValueError(f"unknown function {name!r}; {hint}")
    if len(arguments) != count or any(isinstance(each, ast.Starred) for each in arguments):
        raise ValueError(f"{name} takes {count} argument{'s' if count > 1 else ''}")
    inner = [_convert(each, depth + 1, top=name in WRAPPERS) for each in arguments]
    if name in WRAPPERS:
        return WRAPPERS[name](inner[0])
    return (TWO_ARGUMENTS.get(name) or FUNCTIONS[name])(*inner)
