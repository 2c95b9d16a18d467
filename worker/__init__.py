"""The process that hosts workflows and activities: Spark, thread pool, graceful stop, the embedded stack."""
