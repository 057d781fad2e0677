"""What a competent user would write without any library: the scripts that some lines compare with."""
