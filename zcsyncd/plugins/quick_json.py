"""JSON for a program that lives for some milliseconds: the standard one imports `re` first, which costs more than all
the rest of a hook. Pure.

Rule 1: what CPython's accelerator reads is JSON as `json` reads it; where there is no accelerator, `json` does it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SPACE = " \t\n\r"


class _Context:
    """What the accelerator asks of whoever reads: the plain Python values."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None
    memo: dict[str, str] = {}  # noqa: RUF012 - the accelerator has its own and leaves this one alone


try:
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner

    _scan: Callable[[str, int], tuple[object, int]] | None = make_scanner(_Context())  # type: ignore[arg-type]  # it takes any context
except ImportError:
    _scan = None
    from json.encoder import py_encode_basestring_ascii as _quoted


def read_json(text: str) -> object:
    """Give the value that the text is.

    Raises: ValueError, RecursionError.
    """
    if _scan is None:
        import json

        return json.loads(text)
    bare = text.strip(SPACE)
    try:
        value, end = _scan(bare, 0)
    except (StopIteration, SystemError) as error:
        # The accelerator would name its error in words of `json.decoder`; where nobody has imported that, it has none.
        raise ValueError("no JSON") from error
    except TypeError as error:  # NaN and infinities, for which we give no reader
        raise ValueError("no JSON number") from error
    if end != len(bare):
        raise ValueError("more than one JSON value")
    return value


def write_json(value: object) -> str:
    """Give a value of objects, lists, texts, integers, truth and None as ASCII on one line.

    Raises: TypeError.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(_quoted(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(str(key))}:{write_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(write_json(one) for one in value) + "]"
    raise TypeError(f"no JSON: {type(value).__name__}")
