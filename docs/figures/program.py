"""Draws program.svg: one line of one program on its way through a run with preferences and gate, as it happened.

python docs/figures/program.py
"""

from html import escape
from pathlib import Path

WIDTH, ROW, GAP = 560, 66, 22
BLUE, RED, AMBER, GREEN = "#1f5c99", "#b03a2e", "#8a5a00", "#2a7a34"
STEPS = (
    ("1  The parent's line", "b = X.T @ y", "score −0.182", BLUE),
    ("2  The model's edit", "b = X.T @ y.T @ X", "asked for the rest of the line behind b =", BLUE),
    (
        "3  Its smoke run",
        "ValueError: matmul: mismatch in its core dimension",
        "fails: it is not evaluated",
        RED,
    ),
    (
        "4  The supporter's answer to the same prompt",
        "b = (X.T * 0.96 ** np.arange(len(X))[::-1]) @ y",
        "old rewards fade: score −0.134",
        AMBER,
    ),
    (
        "5  A pair",
        "chosen: 4      rejected: another answer that ran, X.T @ np.clip(y, −1, 1)",
        "score −0.183; 81 pairs in all",
        AMBER,
    ),
    (
        "6  The phase and the gate",
        "gain 23.1, chance up to 20.6; divergence 1.13 of at most 1.2",
        "the reference becomes the tuned model",
        GREEN,
    ),
    (
        "7  The model's next edit, of a later parent",
        "b = (X[-44:].T * 0.98 ** np.arange(len(X[-44:]))[::-1]) @ y[-44:]",
        "score −0.120 → −0.111",
        GREEN,
    ),
)


def picture() -> str:
    """The SVG."""
    height = len(STEPS) * (ROW + GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t" '
        'font-family="system-ui, sans-serif" font-size="14">',
        '<title id="t">One line of a program: edited by the model, answered by the supporter, made a pair, and edited '
        "again by the tuned model</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#fff"/>',
    ]
    for number, (title, code, note, color) in enumerate(STEPS):
        top = 10 + number * (ROW + GAP)
        size = 12 if len(code) < 62 else 11.5
        parts += [
            f'<rect x="10" y="{top}" width="{WIDTH - 20}" height="{ROW}" rx="8" fill="{color}" fill-opacity="0.07" '
            f'stroke="{color}"/>',
            f'<text x="22" y="{top + 20}" font-weight="600" fill="{color}">{escape(title)}</text>',
            f'<text x="22" y="{top + 39}" font-family="ui-monospace, monospace" font-size="{size}" fill="#111" '
            f'xml:space="preserve">{escape(code)}</text>',
            f'<text x="22" y="{top + 57}" font-size="12.5" fill="#444">{escape(note)}</text>',
        ]
        if number < len(STEPS) - 1:
            parts.append(
                f'<path d="M{WIDTH // 2} {top + ROW + 3}v{GAP - 8}l-5 -6m5 6l5 -6" stroke="#555" fill="none"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
