"""Mean-field networks: nodes of any family, factors that join them, and the model that the engine sees."""
