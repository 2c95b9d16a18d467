"""The one room for the connection to Temporal: which server, the client, encryption, and who polls a queue."""
