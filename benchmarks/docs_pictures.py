"""Make the pictures of the docs from real runs: the `rules` judge (OFFLINE) and `svr sim` (SIMULATED).

    python benchmarks/docs_pictures.py WORK docs/images      # WORK: a new folder; takes about four minutes

It needs Chromium on the PATH. The runs are those of `make demo`, and one with the simulated endpoint.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from PIL import Image

HERE = Path(__file__).parent
SVR = (sys.executable, "-m", "svr_async")
COLOURS = 128  # a palette this small keeps a page below 150 kB
PORT = 8791
PRICES = {"gpt-oss-20b": "0.05/0.20", "gpt-oss-120b": "0.15/0.60", "sim-strong": "1/4"}
ITEM = "made-feelings-15b"
JUDGE = ("--judge", f"http://127.0.0.1:{PORT}/v1#gpt-oss-120b")


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line, make the runs, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("images", type=Path)
    args = parser.parse_args(words)
    args.images.mkdir(parents=True, exist_ok=True)
    offline(args.work)
    simulated(args.work)
    for name, page, width, height in (
        ("item", f"item.html#items?item={ITEM}", 1100, 1075),
        ("report", "item.html", 1100, 1180),
        ("compare", "differ.html", 1100, 1060),
        ("bank", "trained/report.html", 1100, 1000),
        ("calls", "calls.html#items?item=sim-test-00062", 1100, 1400),
        ("repro", "repro/report.html", 1100, 1000),
    ):
        picture(args.work / page, args.images / f"{name}.png", width, height)
    for name in ("domains", "training", "frontier"):
        shrink(args.work / "figures" / f"{name}.png", args.images / f"{name}.png")


def svr(work: Path, *words: str) -> None:
    """Run `svr` in the working folder."""
    subprocess.run([*SVR, *words], cwd=work, check=True, stdout=subprocess.DEVNULL)


def offline(work: Path) -> None:
    """Make the runs of `make demo`, their pages and figures."""
    subprocess.run([sys.executable, HERE / "make_demo_pairs.py", work], check=True)
    svr(work, "train", "train.jsonl", "--judge", "rules", "--out", "trained", "--rounds", "2")
    svr(work, "eval", "test.jsonl", "--judge", "rules", "--bank", "trained/bank", "--out", "bank", "-q")
    svr(work, "eval", "test.jsonl", "--judge", "rules", "--method", "direct", "--out", "general", "-q")
    svr(work, "view", "bank", "--out", "item.html", "--no-open")
    svr(work, "view", "bank", "general", "--out", "differ.html", "--no-open")
    svr(work, "report", "bank", "--figures", "figures")
    svr(work, "report", "trained/bank", "--figures", "figures")


def simulated(work: Path) -> None:
    """Judge planted pairs with the simulated endpoint; write the page with calls, and a table of the paper."""
    svr(work, "sim", "--seed", "1", "--train", "60", "--test", "120", "--write", "world")
    server = subprocess.Popen([*SVR, "sim", "--seed", "1", "--port", str(PORT)], cwd=work, stdout=subprocess.DEVNULL)
    try:
        wait()
        data = ("--data", "world/rubricbench.jsonl")
        svr(
            work, "eval", "rubricbench", *data, *JUDGE, "--method", "oracle", "--order", "both", "--out", "oracle", "-q"
        )
        svr(work, "view", "oracle", "--calls", "--out", "calls.html", "--no-open")
        svr(work, "sim", "--seed", "1", "--train", "1000", "--test", "400", "--write", "large")
        svr(work, "train", "large/train.jsonl", *JUDGE, "--rounds", "1", "--out", "large/out", "-q")
        for model, price in PRICES.items():
            judge = ("--judge", f"http://127.0.0.1:{PORT}/v1#{model}", "--price", price)
            flags = ("--bank", "large/out/bank", "--audit", "0", "--out", model, "-q")
            svr(work, "eval", "rubricbench", "--data", "large/rubricbench.jsonl", *judge, *flags)
        svr(work, "report", *PRICES, "--frontier", "--figures", "figures")
        bank = ("--bank", "trained/bank", "--max-calls", "3000")
        svr(work, "repro", "rubricbench", "--data", "world", *JUDGE, *bank, "--limit", "40", "--out", "repro")
    finally:
        server.terminate()
        server.wait()


def wait() -> None:
    """Return once the simulated endpoint answers."""
    for _ in range(100):
        try:
            urlopen(f"http://127.0.0.1:{PORT}/v1/models", timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    sys.exit("the simulated endpoint does not answer")


def picture(page: Path, image: Path, width: int, height: int) -> None:
    """Photograph the top of a page in the light theme."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("Chromium is missing")
    flags = ("--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", "--virtual-time-budget=4000")
    size = (f"--window-size={width},{height}", f"--screenshot={image.resolve()}")
    subprocess.run([chromium, *flags, *size, f"file://{page.resolve()}"], check=True, capture_output=True)
    shrink(image, image)


def shrink(image: Path, out: Path) -> None:
    """Write an image with a small palette."""
    with Image.open(image) as opened:
        opened.convert("RGB").quantize(COLOURS).save(out, optimize=True)


if __name__ == "__main__":
    main()
