"""Programs that construct their answer within a minute, one file each, every file a candidate as it stands."""
