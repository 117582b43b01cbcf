"""A sheet of SVG: text, bars, lines and dots in colours that are readable on white and on black."""

from html import escape
from typing import Literal

Anchor = Literal["start", "middle", "end"]

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.head { font-weight: 600; font-size: 15px }
.soft { fill: #59636e; font-size: 12px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.floor { fill: #b4bec8; stroke: #8c98a4 }
.engine { fill: #2f6fde; stroke: #2f6fde }
.second { fill: #8957c9; stroke: #8957c9 }
.must { stroke: #cf5a00; stroke-width: 2.5 }
.must-ink { fill: #b34700; font-size: 12px }
.range { stroke: #1f2328; stroke-width: 1; opacity: .6 }
.line { fill: none; stroke-width: 1.8 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .soft { fill: #9aa4af }
  .grid { stroke: #3d444d }
  .floor { fill: #5d6873; stroke: #7d8894 }
  .engine { fill: #58a0ff; stroke: #58a0ff }
  .second { fill: #b48ef0; stroke: #b48ef0 }
  .must { stroke: #f0883e }
  .must-ink { fill: #f0883e }
  .range { stroke: #e6edf3 }
}
"""


class Sheet:
    """What was drawn so far, from the top left corner."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title = title
        self.width = width
        self.height = height
        self.shapes: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start") -> None:
        """Words on a base line."""
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def bar(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A filled bar; the smallest one can still be seen."""
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width):.1f}" height="{height:.1f}" rx="2" class="{kind}"'
            ' stroke="none" style="stroke:none"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.shapes.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def dot(self, x: float, y: float, radius: float, kind: str) -> None:
        """A filled dot."""
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{kind}"/>')

    def path(self, points: list[tuple[float, float]], kind: str) -> None:
        """A line through all the points."""
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<polyline points="{where}" class="{kind} line" style="fill:none"/>')

    def __str__(self) -> str:
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img" aria-label="{escape(self.title)}">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                *self.shapes,
                "</svg>",
                "",
            ]
        )
