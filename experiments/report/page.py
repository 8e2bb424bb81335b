"""The page: one HTML file made of the template, the style sheet, the scripts and the data.

The data block is JSON in a script element of a type no browser executes. HTML ends such a block at the first
`</script`, whatever the JSON means, so every character that could begin markup is written as a JSON
escape. The policy names the one script and the one style sheet by their hashes: whatever else got onto
the page could neither run nor fetch anything.
"""

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

SCRIPTS = (
    "dom.js",
    "model.js",
    "chart.js",
    "tooltip.js",
    "diff.js",
    "overview.js",
    "scores.js",
    "lineage.js",
    "candidate.js",
    "gate.js",
    "supporters.js",
    "islands.js",
    "comparison.js",
    "tables.js",
    "main.js",
)
FOLLOW_SCRIPT = "follow.js"

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(payload: dict[str, Any], title: str, follow: bool = False) -> str:
    """The whole page as text.

    Args:
        payload: what `payload.build_payload` made.
        title: the page's title.
        follow: whether the page asks the server that it came from for news; a file on disk never asks
            anybody.
    """
    script = "\n".join(_asset(name) for name in (*SCRIPTS, *([FOLLOW_SCRIPT] if follow else [])))
    style = _asset("report.css")
    parts = {
        "policy": _policy(script, style, follow),
        "title": html.escape(title),
        "style": style,
        "data": embed(payload),
        "script": script,
    }
    # One pass over the template: what is put in is never looked at again, whatever it contains.
    pieces = re.split(r"\{\{(\w+)\}\}", _asset("page.html"))
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


def embed(payload: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in: only ASCII, and no `<`, `>` or `&`."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _policy(script: str, style: str, follow: bool) -> str:
    rules = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "connect-src 'self'" if follow else "connect-src 'none'",
    ]
    return "; ".join(rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
