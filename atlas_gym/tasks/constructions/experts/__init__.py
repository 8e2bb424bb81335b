"""Programs that construct their answer within a minute, one file each, or two of which one is imported."""
