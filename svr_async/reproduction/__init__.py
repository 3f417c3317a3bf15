"""The paper's tables and figures, rebuilt from runs next to the printed numbers."""
