"""TF-IDF: equal to scikit-learn's, stored as JSON and an array, safe without words."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from svr_async.errors import ArtefactError
from svr_async.fit.tfidf import Vocabulary, learn, transform

TEXTS = [
    "Write a Python function that sorts a list",
    "Écrivez une fonction naïve, s'il vous plaît",
    "Is it safe to mix these two things? is it SAFE?",
    "ﬁne İstanbul Straße x y z 12 ٣٤ 日本語 の テスト e\u0301te\u0301",
    "",
    "a b c",
]


def dense(rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]], width: int) -> NDArray[Any]:
    """Return CSR rows as a dense array."""
    indptr, index, value = rows
    out = np.zeros((len(indptr) - 1, width), np.float32)
    for row in range(len(out)):
        out[row, index[indptr[row] : indptr[row + 1]]] = value[indptr[row] : indptr[row + 1]]
    return out


def reference(texts: list[str], max_features: int) -> Any:
    """Return scikit-learn's own vectoriser, fitted."""
    vectoriser = TfidfVectorizer(strip_accents="unicode", ngram_range=(1, 2), max_features=max_features, min_df=1)
    return vectoriser.fit(texts)


@pytest.mark.parametrize("max_features", [5, 4096])
def test_transform_equals_scikit_learn(max_features: int) -> None:
    """Accents, ligatures, other scripts, empty texts: the same numbers as scikit-learn's."""
    unseen = [*TEXTS, "sort MY list safely, naive naive function", "completely different words"]
    expected = reference(TEXTS, max_features).transform(unseen).toarray()
    vocabulary = learn(TEXTS, max_features=max_features)
    np.testing.assert_allclose(dense(transform(vocabulary, unseen), len(vocabulary.idf)), expected, atol=1e-6)


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_any_text_equals_scikit_learn(texts: list[str]) -> None:
    """Whatever the characters, learning never fails and the transform agrees with scikit-learn's."""
    vocabulary = learn(texts)
    got = dense(transform(vocabulary, texts), len(vocabulary.idf))
    expected = reference(texts, 4096).transform(texts).toarray() if vocabulary.terms else np.zeros((len(texts), 0))
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_texts_without_words_give_an_empty_vocabulary() -> None:
    """Nothing to learn is an empty vocabulary and empty rows, not an error (fault 105)."""
    vocabulary = learn(["", "?", "a"])
    indptr, index, value = transform(vocabulary, ["", "hello"])
    assert vocabulary.terms == {}
    assert (indptr.tolist(), len(index), len(value)) == ([0, 0, 0], 0, 0)


def test_idf_must_be_finite() -> None:
    """A NaN in idf is refused."""
    with pytest.raises(ArtefactError, match="finite"):
        Vocabulary(terms={"a": 0}, idf=np.array([np.nan], np.float32))


def test_of_terms_as_frequent_as_each_other_the_first_in_the_alphabet_are_learned() -> None:
    """Where the cut falls among equals, no processor's way to sort decides which of them are features."""
    words = [f"w{number:05}" for number in range(3000)]
    shuffled = np.random.default_rng(0).permutation(words).tolist()
    vocabulary = learn([*shuffled, "often used", "often used"], max_features=40)
    assert list(vocabulary.terms) == ["often", "often used", "used", *words[:37]]


def test_a_word_longer_than_a_bank_can_hold_is_no_feature() -> None:
    """Sequences, hashes and encoded files have no spaces; neither they nor their pairs with a neighbour are learned."""
    vocabulary = learn([f"{'acgt' * 70} is a sequence", f"{'ab' * 127} {'cd' * 10}"])
    assert set(vocabulary.terms) == {"is", "sequence", "is sequence", "ab" * 127, "cd" * 10}
