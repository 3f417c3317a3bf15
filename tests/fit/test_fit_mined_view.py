"""What was mined, by rubric where rubrics recur and by their words where they do not."""

import numpy as np
from scipy.sparse import csr_matrix

from svr_async.fit.mined_view import recurring_view


def test_rubrics_that_recur_stand_for_themselves():
    """Where half of what was mined is of rubrics that three prompts gave, it stays as it is."""
    mined = csr_matrix(np.repeat(np.eye(4), 3, axis=0))
    assert recurring_view(mined, csr_matrix((12, 2))) is mined


def test_rubrics_that_never_recur_go_by_their_words():
    """A rubric a prompt: what they hold in common counts once a prompt, however often a prompt has it."""
    worded = csr_matrix(np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))
    found = recurring_view(csr_matrix(np.eye(3)), worded)
    np.testing.assert_array_equal(found.toarray(), [[1, 0], [1, 0], [0, 1]])


def test_where_nothing_is_known_nothing_is_made_up():
    """Without mined rubrics there are none; without words, rubrics stay; nothing mined has no words."""
    mined = csr_matrix(np.eye(3))
    assert recurring_view(None, None) is None
    assert recurring_view(mined, None) is mined
    empty = csr_matrix((3, 3))
    assert recurring_view(empty, csr_matrix((3, 2))) is empty
