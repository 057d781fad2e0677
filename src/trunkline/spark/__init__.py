"""Topics in Spark: ``format("trunkline")``, the session factory, pipelines."""
