"""What the documentation needs beside MkDocs: equations, links in docstrings, notebooks."""

import html
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.structure.files import File

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
ROLE = re.compile(r":(?P<role>[a-z]+):`(?P<text>[^`]+)`")


NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
RUN = "HPME_RUN_NOTEBOOKS"
"""Set by ``make docs``: notebooks are run, and shown with what they print."""


def on_config(config: Any) -> Any:
    """Lists all notebooks and pages of results; there is one more after every new measurement."""
    folder = Path(config.docs_dir)
    names = [f"notebooks/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    for entry in config.nav:
        for section in entry.get("Tutorials", ()):
            if isinstance(section, dict) and "Notebooks" in section:
                section["Notebooks"] = names
        for name in ("Results", "Measured"):
            if isinstance(entry, dict) and name in entry:
                found = folder.glob(f"{name.lower()}/**/*.md")
                entry[name] = sorted(path.relative_to(folder).as_posix() for path in found)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds a page per notebook, and one of the arguments of explainers."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if os.environ.get(RUN):
            _run(notebook, path.stem)
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=_page(notebook, path.name)))
    files.append(File.generated(config, "options.md", content=_options()))
    return files


def _options() -> str:
    """What the constructor arguments of every explainer may be, from the tables they declare."""
    from hpme.explainers import describe_options
    from hpme.explainers.registry import built_in

    parts = ["# Arguments of explainers", "Arguments of `HPMEExplainer(...)` and the others."]
    for slug, kind in built_in().items():
        rows = [
            f"| `{o.name}` | `{o.default!r}` | {_cell(o.constraint)} | {_cell(o.meaning)} |"
            for o in describe_options(kind)
        ]
        head = ["| argument | default | may be | meaning |", "|---|---|---|---|"]
        parts += [f"## {slug}", f"`{kind.__name__}`. {kind.summary}", "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return ROLE.sub(r"`\g<text>`", text).replace("|", "\\|")


def _run(notebook: Any, name: str) -> None:
    """Runs a notebook, unless what it needs is not installed."""
    import importlib.util

    from nbclient import NotebookClient

    needed = {"chemprop": ["chemprop"], "published_model": ["chemprop", "admet_ai"]}
    if None in map(importlib.util.find_spec, needed.get(name, [])):
        return
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=1200, resources=resources).execute()


def _page(notebook: Any, name: str) -> str:
    """Cells as Markdown; what they print below them."""
    title, *cells = notebook.cells
    parts = [title.source, f"*The notebook is `examples/notebooks/{name}`.*"]
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts += [text for output in cell.outputs if (text := _output(output))]
    return "\n\n".join(parts) + "\n"


def _output(output: Any) -> str:
    """An output as Markdown; bars of progress, on stderr, are left out."""
    if output.output_type == "stream":
        return f"```\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    data = output.get("data", {})
    if "text/html" in data:  # without blank lines, which would end it
        lines = [line for line in data["text/html"].splitlines() if line.strip()]
        text = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>", "", "\n".join(lines), flags=re.DOTALL)
        return "<div>" + re.sub(r"\s*\n\s*", " ", text) + "</div>"
    if "image/png" in data:
        return f"![](data:image/png;base64,{data['image/png'].strip()})"
    return f"```\n{data['text/plain']}\n```" if "text/plain" in data else ""


def on_page_content(content: str, **_: Any) -> str:
    """Equations as MathML, which browsers show by themselves."""

    def mathml(display: str) -> Any:
        return lambda match: convert(html.unescape(match[1]).strip(), display=display)

    return DISPLAY.sub(mathml("block"), INLINE.sub(mathml("inline"), content))


class Roles(Extension):
    """Docstrings in PyG's style, with Sphinx roles, as Markdown."""

    def on_alias_instance(self, *, node: Any, alias: Any, **_: Any) -> None:
        """Shows what a package exports by ``from module import name as name``."""
        names = getattr(node, "names", ())
        if any(one.name == one.asname == alias.name for one in names):
            alias.public = True

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
