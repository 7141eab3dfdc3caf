"""What all commands share: errors a user can act on, checks of arguments, messages."""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer
from rich.console import Console

from hpme.errors import HPMEError, InputError, UnknownNameError, short_of_memory
from hpme.text import one_line

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")


EXIT_CODES = "Exit codes: 0 done, 1 failed while running, 2 wrong usage."
threads = 1
"""What ``hpme --threads`` says."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Makes a command of a function: errors a user can act on become a line and exit code 1.

    A parameter whose type is a dataclass stands for all of its fields, each an option of its own.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)
    }
    options = [
        option.replace(kind=option.KEYWORD_ONLY)
        for name, one in parameters.items()
        for option in (_fields(groups[name]) if name in groups else [one])
    ]

    @functools.wraps(function)
    def wrapped(**values: Any) -> None:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
        else:  # PyTorch reads it when it is loaded, which errors in arguments need not wait for
            os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
        handler = _Said(logging.ERROR if values.get("quiet") else logging.WARNING)
        logging.getLogger("hpme").addHandler(handler)
        made = {
            name: group(**{o.name: values.pop(o.name, o.default) for o in _fields(group)})
            for name, group in groups.items()
        }
        try:
            function(**made, **values)
        except Exception as error:
            if not isinstance(error, HPMEError | OSError) and not short_of_memory(error):
                raise
            say(f"error: {error}" if str(error) else "error: out of memory", style="red")
            raise typer.Exit(1) from error
        finally:
            logging.getLogger("hpme").removeHandler(handler)

    # Typer reads options and help from here.
    wrapped.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    text = inspect.getdoc(function) or ""
    wrapped.__doc__ = text if "Exit codes" in text else f"{text}\n\n{EXIT_CODES}"
    return wrapped


def _fields(group: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(group, eval_str=True).parameters.values())


class _Said(logging.Handler):
    """What is logged is said, as all else is."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"warning: {record.getMessage()}", style="yellow")


def say(text: str, style: str | None = None) -> None:
    """Progress goes to stderr; stdout is for results."""
    text = one_line(text, keep="\n\t")
    console = Console(stderr=True)
    whole = not console.is_terminal  # what is read from a file or a pipe: paths are not broken
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=whole)


def tell(text: str, *, quiet: bool = False) -> None:
    """Prints a result, unless nothing but errors is wanted."""
    if not quiet:
        typer.echo(one_line(text, keep="\n\t"))


def number(value: float | None) -> str:
    """A metric as text."""
    return "undefined" if value is None else f"{value:.4f}"


def name_or_number(text: str | None) -> int | str | None:
    """A class, task or entry as it is known to the model."""
    return int(text) if text is not None and text.isdecimal() else text


def known(hint: str, kind: str, name: str, valid: Iterable[str]) -> None:
    """Refuses a name that is not registered, with the closest one that is."""
    names = list(valid)
    if name in names:
        return
    message = str(UnknownNameError(kind, name, names))
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    refuse(f"did you mean '{close[0]}'? {message}" if close else message, hint)


def usage(hint: str, function: Callable[..., Result], *args: Any) -> Result:
    """Calls a function whose :class:`InputError` is about a command-line argument."""
    try:
        return function(*args)
    except InputError as error:
        refuse(str(error), hint)


def refuse(message: str, hint: str) -> NoReturn:
    """Ends the command with a usage error about an argument."""
    raise typer.BadParameter(one_line(message, keep="\n\t"), param_hint=hint)


def check_writable(path: Path | None, *endings: str) -> None:
    """Fails now, not after the work, if a result could not be written, or ends otherwise."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise InputError(f"'{path}' must end in {' or '.join(endings)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder of '{path}': {error}") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write '{path}'; choose another place")


def check_device(text: str) -> torch.device:
    """The device of that name."""
    import torch

    try:
        device = torch.device(text)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"no device '{text}' to compute on: {reason}") from error
    return device


def list_skipped(skipped: Sequence[Any], left: int, path: Path, *, quiet: bool) -> None:
    """Lists rows of a table that are left out in a file, and says how many; others are ``left``."""
    from hpme.data.molecules.columns import SKIPPED, write_skipped

    if path.exists() and not path.read_bytes().startswith(",".join(SKIPPED).encode()):
        raise InputError(f"'{path}' is no list of rows that are left out; move it elsewhere")
    if not skipped:
        path.unlink(missing_ok=True)  # that of an earlier run
        return
    write_skipped(path, skipped)
    if not quiet:
        rows = f"{len(skipped):,} of {len(skipped) + left:,} rows"
        say(f"{rows} are left out; '{path}' lists them", style="yellow")


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Values of ``key=value`` pairs, read as JSON where possible, else as text."""
    from hpme.storage import read_json

    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(f"'{pair}' is no option; write key=value")
        if key in options:
            raise InputError(f"option '{key}' is given twice")
        word = "null" if text.lower() == "none" else text.lower()
        try:
            options[key] = read_json(word if word in ("true", "false", "null") else text)
        except ValueError:
            options[key] = text
    return options


def parse_rules(pairs: Sequence[str]) -> dict[str, str]:
    """Patterns of ``name=SMARTS`` pairs."""
    rules: dict[str, str] = {}
    for pair in pairs:
        found = re.fullmatch(r"\s*([\w -]*[\w-])\s*=(.*)", pair, re.DOTALL)
        if found is None:  # a pattern may hold '=', too
            raise InputError(f"'{pair}' is no rule; write NAME=SMARTS, such as carbonyl=[CX3]=O")
        if found[1] in rules:
            raise InputError(f"rule '{found[1]}' is given twice")
        rules[found[1]] = found[2]
    if rules:
        from hpme.data.molecules.chem import check_rules

        check_rules(rules)
    return rules


def check_patterns(should: str | None, should_not: str | None) -> None:
    """Refuses what is no SMARTS."""
    for name, pattern in (("--should", should), ("--should-not", should_not)):
        if pattern is not None:
            from hpme.data.molecules.chem import compile_smarts

            usage(name, compile_smarts, [pattern])
