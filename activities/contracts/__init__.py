"""What workflows may ask of activities: their names, inputs and results. No store or Spark can be reached from here."""
