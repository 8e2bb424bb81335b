"""A study: several methods, starts and seeds on one environment, as data and as tables in the paper's shape."""
