"""What several commands share: options, the connection, progress, and words for people."""
