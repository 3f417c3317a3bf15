"""Make a virtual environment for each peer:  python benchmarks/speed/peers/make_envs.py DIR  (some 2 GB, once)."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PEERS = {
    "openai": ["openai[aiohttp]", "orjson"],
    "litellm": ["litellm", "orjson"],
    "inspect_ai": ["inspect_ai", "openai", "orjson"],
    "curator": ["bespokelabs-curator", "orjson"],
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, packages in PEERS.items():
        folder = Path(sys.argv[1]) / name
        if not (folder / "bin" / "python").exists():
            venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True)
        print(f"{name}: {folder}")


if __name__ == "__main__":
    main()
