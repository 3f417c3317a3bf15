"""When a call may leave, and to which endpoint."""
