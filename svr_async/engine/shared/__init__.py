"""What machines share through Redis or Valkey: who asks which question, and replies for a while; never the truth."""
