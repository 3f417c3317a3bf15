"""The content words of a bank's rubrics, numbered."""

from itertools import pairwise

from svr_async.training.bank.criteria import rubric_words


def test_rubrics_share_the_numbers_of_the_words_that_they_share() -> None:
    """Stopwords, what is judged and negations have none; plural and singular are one; no text, no words."""
    texts = ["The response cites a source.", "Names the sources of each figure.", "The answer must not be.", ""]
    borders, words = rubric_words(texts)
    rows = [set(words[first:last].tolist()) for first, last in pairwise(borders)]
    assert len(rows[0] & rows[1]) == 1
    assert len(rows[0]) == 2
    assert rows[2] == rows[3] == set()
    assert rubric_words([])[0].tolist() == [0]
