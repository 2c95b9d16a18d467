"""What datamon decides: which state, who is next, what is refused. No I/O, and no clock of its own."""
