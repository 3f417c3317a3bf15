"""Embed texts with a sentence-transformers model: one unit vector a text, for `embeddings.py compare`.

    python benchmarks/paper/embed_texts.py texts.json --model FOLDER --out vectors.npz

Needs NumPy and `sentence-transformers` and nothing of this package, so that it runs in an environment of its own.
`texts.json` is a list of strings, as `embeddings.py texts` writes it. A text longer than the model reads is cut.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def digest_of(texts: Sequence[str]) -> str:
    """Return a hash of the texts in their order."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def embedded(texts: Sequence[str], model: Path) -> np.ndarray:
    """Return a unit vector for each text (text, dimension)."""
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    found = SentenceTransformer(str(model), device="cpu").encode(list(texts), normalize_embeddings=True)
    return np.asarray(found, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="a JSON list of strings")
    parser.add_argument("--model", type=Path, required=True, help="folder of a sentence-transformers model")
    parser.add_argument("--out", type=Path, required=True, help="where the vectors go (.npz), outside the repository")
    args = parser.parse_args()
    texts = json.loads(args.texts.read_text("utf-8"))
    np.savez_compressed(args.out, vector=embedded(texts, args.model), digest=digest_of(texts))


if __name__ == "__main__":
    main()
