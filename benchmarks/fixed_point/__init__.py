"""The fixed-point operator of Sheth and Khardon (2016)."""
