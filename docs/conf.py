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
smartquotes = False  # options begin with two hyphens
highlight_language = "text"
html_show_search_summary = False  # it would fetch pages, which file:// does not allow

PAGES = {
    "": ["Tutorial <tutorial>", "Concepts <concepts>"],
    "Guides": [
        "Training <guides/training>",
        "Evaluating <guides/evaluating>",
        "Comparing and promoting <guides/comparing>",
        "Replaying <guides/replay>",
        "Verifying <guides/verifying>",
        "Auditing <guides/auditing>",
        "The page <guides/report>",
        "Learners <guides/learners>",
        "The lab <guides/lab>",
        "Studies <guides/studies>",
        "Robots <guides/robots>",
        "Extending <guides/extending>",
        "Outside simulators <guides/outside>",
        "Gymnasium <guides/gymnasium>",
        "Several GPUs <guides/gpus>",
        "A fleet <guides/fleet>",
    ],
    "Reference": [
        "Command line <reference/cli>",
        "Python <reference/python>",
        "Run folder <reference/run-folder>",
        "Ledger <reference/ledger>",
        "Rows <reference/rows>",
        "Traces <reference/traces>",
        "Failure labels <reference/labels>",
        "Statistics <reference/statistics>",
        "Panels <reference/panels>",
        "Policy card <reference/policy-card>",
        "Audits <reference/audits>",
    ],
    "Internals": [
        "Design <design>",
        "Engines <internals/engines>",
        "Performance <internals/performance>",
        "Distributed <internals/distributed>",
        "Memory <internals/memory>",
        "A fleet <internals/fleet>",
        "A fleet with thousands of actors <internals/fleet-at-scale>",
        "How the recipe was found <internals/recipe>",
    ],
    "Measurements": [
        "Overview <measurements/index>",
        "Time to walk <measurements/learning>",
        "Did scale help? <measurements/studies>",
        "Training on one device <measurements/performance>",
        "A fleet, measured <measurements/fleet>",
        "Speed and parity of engines <measurements/engines>",
        "Learners compared <measurements/learners>",
        "Do the intervals hold? <measurements/intervals>",
        "What success lets through <measurements/success>",
        "Outside simulators <measurements/outside>",
        "Forgeries <measurements/forgeries>",
        "Planted bugs <measurements/audits>",
    ],
    "Exercises": ["Exercises <exercises/index>"],
    "More": ["What is not here <not-here>"],
}
"""What the sidebar shows, in order. A page that is neither here nor below the exercises fails the build."""


def exists(page: str) -> bool:
    return (HERE / f"{page.split('<')[1][:-1]}.md").exists()


def below(folder: Path) -> list[str]:
    """The pages that a folder's index stands above, where the sidebar names the index alone."""
    return [f"/{folder.name}/{p.stem}" for p in sorted(folder.glob("*.md")) if p.stem != "index"]


def contents(pages: list[str], caption: str = "") -> str:
    lines = [
        "```{toctree}",
        ":hidden:",
        ":titlesonly:",
        *([f":caption: {caption}"] if caption else []),
        "",
        *pages,
        "```",
    ]
    return "\n" + "\n".join(lines) + "\n"


def with_reference(app: Any, name: str, source: list[str]) -> None:
    """Puts what the code says where a page has `<!-- made: what -->`, and contents under those that stand
    above others: documents stay plain Markdown."""
    import made

    source[0] = made.filled(source[0])
    if name == "index":
        source[0] += contents(["Home <self>"])
        for caption, pages in PAGES.items():
            there = [p.replace("<", "</") for p in pages if exists(p)]
            source[0] += contents(there, caption) if there else ""
    elif name == "exercises/index":
        source[0] += contents(below(HERE / "exercises"))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", with_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
