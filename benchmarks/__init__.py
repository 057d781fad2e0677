"""What Trunkline costs, measured against what it replaces. docs/benchmarks.md says how to run and read it."""
