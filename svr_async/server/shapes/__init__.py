"""What the server speaks: one file a family of shapes, each from a request's body to a question and back."""
