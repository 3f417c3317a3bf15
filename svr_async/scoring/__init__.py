"""Choose rubrics for a prompt, ask the judge, add up the margin and its contributions."""
