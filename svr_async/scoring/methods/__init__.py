"""Methods: how rubrics are found for a pair and how verdicts become a margin. A file each, named in `registry`."""
