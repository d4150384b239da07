#!/usr/bin/env python3
"""Draws tools/pictures/front.svg, the picture of the README: the time of a step on a GPU, and the memory of a 7B model.

The times are those of the tables in tools/Measured.md, the bytes those of tools/memory.py. It needs no matplotlib.
"""
import argparse
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "tools" / "pictures" / "front.svg"
sys.path.insert(0, str(ROOT / "tools"))
WIDTH, BAR, STYLE = 880, 15, """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600; font-size: 14px }
  .small { font-size: 11px; fill: #59636e } .theirs { fill: #b6bec7 } .ours { fill: #1a7f64 }
  .parameters { fill: #8c959f } .gradients { fill: #c4cbd2 } .states { fill: #1a7f64 } .masters { fill: #6cbfa6 }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } .theirs { fill: #59636e }
    .gradients { fill: #3d444d } .parameters { fill: #656c76 } .ours, .states { fill: #2ea487 } .masters { fill: #8ad6bf } }
"""


def milliseconds(words):
    number, unit = words.split()
    return float(number) / {"ms": 1.0, "µs": 1000.0}[unit]


def times(size="100 M"):
    """{(dtype, what): (ms of torch's fused AdamW, ms of ours)} of one tensor on the H100."""
    page = (ROOT / "tools" / "Measured.md").read_text().split("### AdamW on the H100")[1]
    found = {}
    for dtype in ("f32", "bf16"):
        row = re.search(rf"^\| {dtype} \| a copy .*?^\| {size} \|(.*?)\|$", page, re.M | re.S)[1].split("|")
        for what, cell in (("plain", row[1]), ("with a clip", row[2])):
            ours, factor = re.match(r" ([\d.]+ \S+) \([\d.]+, ([\d.]+) ×\)", cell).groups()
            found[dtype, what] = milliseconds(ours) * float(factor), milliseconds(ours)
    return found


def text(x, y, words, kind="", anchor="start"):
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of}>{html.escape(words)}</text>'


def bar(x, y, width, kind):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" class="{kind}"/>'


def draw_times(left, top, width):
    parts = [text(left, top, "A step of AdamW, 100 M parameters, H100", "title"),
             text(left, top + 18, "ms; grey: torch fused with clip_grad_norm_, green: altgrad", "small")]
    rows, label = times(), 118
    longest = max(theirs for theirs, _ in rows.values())
    for index, ((dtype, what), (theirs, ours)) in enumerate(rows.items()):
        y, scale = top + 36 + index * 48, (width - label - 92) / longest
        parts += [text(left, y + BAR + 5, f"{dtype}, {what}"), bar(left + label, y, theirs * scale, "theirs"),
                  bar(left + label, y + BAR + 1, ours * scale, "ours"),
                  text(left + label + theirs * scale + 6, y + 12, f"{theirs:.2f}", "small"),
                  text(left + label + ours * scale + 6, y + BAR + 13, f"{ours:.2f}  ({theirs / ours:.2f} × as fast)", "small")]
    return parts


def draw_memory(left, top, width, rows):
    kinds = "parameters", "gradients", "states", "masters"
    parts = [text(left, top, "Memory of a 7B model in training", "title")]
    x = left
    for kind in kinds:
        parts += [f'<rect x="{x:.1f}" y="{top + 9}" width="10" height="10" class="{kind}"/>',
                  text(x + 14, top + 18, kind, "small")]
        x += 30 + 6.2 * len(kind)
    longest, label = max(sum(values) for _, values in rows), 172
    for index, (words, values) in enumerate(rows):
        x, y, scale = left + label, top + 36 + index * 32, (width - label - 52) / longest
        parts.append(text(left, y + 12, words))
        for kind, value in zip(kinds, values):
            parts.append(bar(x, y, value * scale, kind))
            x += value * scale
        parts.append(text(x + 6, y + 12, f"{sum(values):.0f} GB", "small"))
    return parts


SHORT = {"torch.optim.AdamW, float32": "torch AdamW, float32", 'AdamW, bfloat16, `storage="master=f32"`': "AdamW, bf16 + master",
         'AdamW, bfloat16, `storage="master=bf16+i16 states=f32"`': "AdamW, bf16 + 16 bits",
         'Muon and AdamW, bfloat16, `storage="master=f32"`': "Muon, bf16 + master",
         'AdamW8bit, bfloat16, `storage="param=bf16,stochastic"`': "AdamW8bit, bf16",
         'AdamW4bit, bfloat16, `storage="param=bf16,stochastic"`': "AdamW4bit, bf16"}


def picture():
    import memory
    known = {words: values[:4] for words, *values in memory.rows()}
    rows, height = [(short, known[words]) for words, short in SHORT.items()], 250
    parts = [*draw_times(16, 28, 430), *draw_memory(478, 28, WIDTH - 478 - 10, rows)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">\n'
            f"<!-- made by tools/front_picture.py -->\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the picture is stale")
    options = parser.parse_args()
    drawn = picture()
    if options.check and drawn != PICTURE.read_text():
        sys.exit("stale: tools/pictures/front.svg; run tools/front_picture.py")
    if not options.check:
        PICTURE.write_text(drawn)


if __name__ == "__main__":
    main()
