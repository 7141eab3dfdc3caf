"""What the documentation needs beside MkDocs: equations without scripts, links in docstrings."""

import html
import re
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
ROLE = re.compile(r":(?P<role>[a-z]+):`(?P<text>[^`]+)`")


def on_config(config: Any) -> Any:
    """Lists all pages of results; there is one more after every new measurement."""
    folder = Path(config.docs_dir)
    for entry in config.nav:
        for name in ("Results", "Measured"):
            if isinstance(entry, dict) and name in entry:
                found = folder.glob(f"{name.lower()}/**/*.md")
                entry[name] = sorted(path.relative_to(folder).as_posix() for path in found)
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Equations as MathML, which browsers show by themselves."""

    def mathml(display: str) -> Any:
        return lambda match: convert(html.unescape(match[1]).strip(), display=display)

    return DISPLAY.sub(mathml("block"), INLINE.sub(mathml("inline"), content))


class Roles(Extension):
    """Docstrings in PyG's style, with Sphinx roles, as Markdown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(lambda match: _markdown(match, obj), obj.docstring.value)


def _markdown(match: re.Match[str], obj: Object) -> str:
    text = " ".join(match["text"].split())
    if match["role"] == "math":
        return f"${text}$"
    name = text.lstrip("~")
    shown = name.rpartition(".")[2] if text.startswith("~") else name
    target = name if name.startswith("hpme.") else _path(name, obj)
    # Optional: not everything a docstring mentions has a page.
    return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'


def _path(name: str, obj: Object) -> str:
    """The full name of what a docstring mentions by its name in the scope of an object."""
    scope: Object | None = obj
    while scope is not None:
        if name.partition(".")[0] in scope.members:
            return f"{scope.path}.{name}"
        scope = scope.parent
    return name
