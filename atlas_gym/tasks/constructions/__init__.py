"""Open problems of constructive mathematics, one file each, judged without any tolerance."""
