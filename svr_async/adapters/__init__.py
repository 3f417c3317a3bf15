"""One file per benchmark or training set: rows in, pairs out, official score."""
