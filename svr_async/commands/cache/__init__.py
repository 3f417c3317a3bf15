"""`svr cache`: the memo of replies, its files in and out."""
