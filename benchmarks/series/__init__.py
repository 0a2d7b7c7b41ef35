"""Time series: learned variances, forecasts of real series, calibration of simulated ones, seconds."""
