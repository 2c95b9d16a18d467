"""`datamon up`, `down`, `status`, `doctor` and `worker`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {
    "up": Registered("commands:up", "Start the embedded Temporal server and a worker with local Spark.", 10),
    "down": Registered("commands:down", "Stop what `datamon up` started.", 11),
    "status": Registered("commands:status", "Show which server and store are used, and whether they answer.", 12),
    "doctor": Registered("doctor:doctor", "Check all that datamon needs, and say what is wrong.", 14),
    "worker": Registered("commands:worker", "Run a worker for a Temporal server elsewhere.", 13),
}
