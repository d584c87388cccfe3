"""The film of README and of the report: PPO without and with hindsight after the same prey.

    python docs/side_by_side.py docs/with_and_without.gif

Both are shipped policies, which act without random actions in the same episodes, one after the
other: plain PPO after 1,000,000 steps, and the recipe of docs/findings.md after 200,000.
"""

import sys
from pathlib import Path

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from hindsight.training.watch import Filmed, film_policy

POLICIES = Path("results/published/policies/random-repel-n3-G10-r1")
SIDES = {
    "PPO": ("ppo-lr0.0003-64x64-16seeds-1000000steps-d1200180a5.safetensors", "#0072B2"),
    "PPO with hindsight": (
        "ppo-her-final-described-weighted-until0.5-lr0.0003-64x64-16seeds-200704steps-"
        "cb81bc04bd.safetensors",
        "#C2185B",
    ),
}
EPISODES, COLOURS = 3, 48
#: Of a frame: what of it is shown, without its title and the numbers of its axes; pixels.
CROP, SIDE, TITLE, HOLD = (40, 47, 445, 452), 290, 26, 6


def frame(filmed: Filmed, at: int, title: str, colour: str) -> Image.Image:
    """One side at a step; from its end on, an episode says how it ended."""
    shown = Image.fromarray(filmed.frames[min(at, len(filmed.frames) - 1)])
    side = Image.new("RGB", (SIDE, SIDE + TITLE), "white")
    side.paste(shown.crop(CROP).resize((SIDE, SIDE), Image.Resampling.LANCZOS), (0, TITLE))
    if at >= len(filmed.frames) - 1:
        title += ": caught" if filmed.caught else ": missed"
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans:bold"), 15)
    ImageDraw.Draw(side).text((8, 5), title, fill=colour, font=font)
    return side


def main(out: str) -> None:
    films = {
        title: film_policy(POLICIES / file, None, EPISODES, 0) for title, (file, _) in SIDES.items()
    }
    frames = []
    for number in range(EPISODES):
        for at in range(max(len(own[number].frames) for own in films.values()) + HOLD):
            whole = Image.new("RGB", (2 * SIDE, SIDE + TITLE), "white")
            for place, (title, (_, colour)) in enumerate(SIDES.items()):
                whole.paste(frame(films[title][number], at, title, colour), (place * SIDE, 0))
            frames.append(whole)
    few = frames[-1].quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    pictures = [each.quantize(palette=few, dither=Image.Dither.NONE) for each in frames]
    pictures[0].save(out, save_all=True, append_images=pictures[1:], duration=200, loop=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
