"""What datamon does: side effects, each of which may run twice and leaves the same bytes."""
