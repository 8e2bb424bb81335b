"""What a person runs: the command line, configurations, tables, figures, studies and benchmarks."""
