"""`datamon up`, `down`, `status`, `doctor` and `worker`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {
    "up": Registered("commands:up", "Start the embedded Temporal server and a worker with local Spark.", 10),
    "down": Registered("commands:down", "Stop what `datamon up` started.", 11),
    "status": Registered("commands:status", "Show what this command would talk to, and whether it answers.", 12),
    "doctor": Registered("doctor:doctor", "Look at all that datamon needs, and say what is wrong.", 14),
    "worker": Registered("commands:worker", "Run a worker for a Temporal server elsewhere.", 13),
}
