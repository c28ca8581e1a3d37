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
from firststep.kinks import WRAPPERS
from firststep.numerics.quadrature import NotIntegrable

MAX_TEXT = 2000
MAX_DEPTH = 200
_CALLED = (*FUNCTIONS, *WRAPPERS, *TWO_ARGUMENTS)
_BINARY: dict[type[ast.operator], Callable[[Expression, Expression], Expression]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def parse(text: str, parameter: str = "activation") -> Expression:
    """The expression in ``text``: numbers, z, + - * / **, pi, e, functions, centered, normalized.

    A bare function name means that function of z. Anything else is refused with a message that
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
            tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
        if isinstance(tree.body, ast.Name) and tree.body.id not in (*FUNCTIONS, *CONSTANTS, "z"):
            known = ", ".join(ACTIVATIONS)
            raise refuse(text, nearest(tree.body.id, FUNCTIONS) or f"the names are {known}")
        made = _convert(tree.body, 0, top=True)
        check_size(made)
        return made
    except InvalidParameter:
        raise
    except OverflowError:
        raise refuse(text, "a constant overflows") from None
    except SyntaxError:
        raise refuse(text, "it is not a complete expression") from None
    except NotIntegrable as error:
        raise refuse(text, str(error)) from None
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise refuse(text, str(error) or "too deep or too large") from None


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
        if node.id in FUNCTIONS:
            if top:
                return FUNCTIONS[node.id](Z)
            raise ValueError(f"{node.id} needs an argument, as in {node.id}(z)")
        hint = nearest(node.id, _CALLED) or "the variable is z"
        raise ValueError(f"unknown name {node.id!r}; {hint}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _convert(node.operand, depth + 1)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _convert(node.left, depth + 1), _convert(node.right, depth + 1)
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _convert_call(node.func.id, node.args, depth)
    kind = type(node).__name__.lower()
    raise ValueError(f"{kind} is not allowed; only arithmetic and the named functions are")


def _convert_call(name: str, arguments: list[ast.expr], depth: int) -> Expression:
    count = 2 if name in TWO_ARGUMENTS else 1
    if name not in _CALLED:
        hint = nearest(name, _CALLED) or f"the functions are {', '.join(FUNCTIONS)}"
        raise ValueError(f"unknown function {name!r}; {hint}")
    if len(arguments) != count or any(isinstance(each, ast.Starred) for each in arguments):
        raise ValueError(f"{name} takes {count} argument{'s' if count > 1 else ''}")
    inner = [_convert(each, depth + 1, top=name in WRAPPERS) for each in arguments]
    if name in WRAPPERS:
        return WRAPPERS[name](inner[0])
    return (TWO_ARGUMENTS.get(name) or FUNCTIONS[name])(*inner)
