"""Everything about the connection to Temporal: which server, the client, encryption, and who polls a queue."""
