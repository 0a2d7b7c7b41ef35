"""Models: data and structure in, gradients in the moments of each block out."""
