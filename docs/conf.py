"""How Sphinx makes the site: all documents of this folder, a reference from the code, no network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import surefoot  # noqa: E402

project = "Surefoot"
author = "the authors of Surefoot"
release = version = surefoot.__version__
html_title = f"Surefoot {release}"
html_theme = "furo"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_show_copyright = False
extensions = ["myst_parser"]
exclude_patterns = ["outputs/**"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nitpicky = True

PAGES = {
    "": ["tutorial", "concepts"],
    "Guides": [
        "guides/training", "guides/evaluating", "guides/comparing", "guides/replay", "guides/report",
        "guides/learners", "guides/lab", "guides/studies", "guides/robots", "guides/extending",
        "guides/outside", "guides/gymnasium", "guides/gpus",
    ],
    "Reference": [
        "reference/cli", "reference/python", "reference/run-folder", "reference/ledger", "reference/rows",
        "reference/traces", "reference/labels", "reference/statistics", "reference/panels",
        "reference/policy-card",
    ],
    "Internals": [
        "design", "internals/engines", "internals/performance", "internals/distributed", "internals/recipe",
    ],
    "Measurements": [
        "measurements/index", "measurements/learning", "measurements/studies", "measurements/performance",
        "measurements/engines", "measurements/learners", "measurements/intervals", "measurements/outside",
    ],
    "Exercises": ["exercises/index"],
    "More": ["not-here"],
}  # fmt: skip
"""What the sidebar shows, in order. A page that is neither here nor below the exercises fails the build."""


def below(folder: str) -> list[str]:
    """The pages that a folder's index stands above, where the sidebar names the index alone."""
    if f"{folder}/index" not in PAGES["Exercises"]:
        return []
    return [f"/{folder}/{p.stem}" for p in sorted((HERE / folder).glob("*.md")) if p.stem != "index"]


def contents(pages: list[str], caption: str = "") -> str:
    lines = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```"]
    return "\n" + "\n".join(lines) + "\n"


def with_reference(app: Any, name: str, source: list[str]) -> None:
    """Puts what the code says where a page has `<!-- made: what -->`, and contents under those that stand
    above others: documents stay plain Markdown."""
    import made

    source[0] = made.filled(source[0])
    if name == "index":
        there = {c: [p for p in pages if (HERE / f"{p}.md").exists()] for c, pages in PAGES.items()}
        source[0] += "".join(contents([f"/{p}" for p in pages], c) for c, pages in there.items() if pages)
    elif name.endswith("/index") and below(name.removesuffix("/index")):
        source[0] += contents(below(name.removesuffix("/index")))


def setup(app: Any) -> None:
    app.connect("source-read", with_reference)
