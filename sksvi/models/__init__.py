"""What the data say: one package per family of models.

``MODELS`` names every model of the library, key to ``"module:Class"``. The tests of the contract run
`sksvi.testing.check_model` over it; a model without an entry fails them.
"""

MODELS = {
    "beta-process": "sksvi.models.beta_process.model:BetaProcess",
    "correlated-topics": "sksvi.models.topics.correlated:CorrelatedTopics",
    "factorization": "sksvi.models.factorization.gaussian:FactorModel",
    "dynamic": "sksvi.models.time_series.model:DynamicModel",
    "full-gp": "sksvi.models.gp.full:FullGP",
    "latent-dirichlet": "sksvi.models.topics.lda:LatentDirichlet",
    "gamma-factors": "sksvi.models.gamma_factor.model:GammaFactors",
    "gamma-poisson": "sksvi.models.nmf.poisson:GammaPoisson",
    "gamma-poisson-overdispersed": "sksvi.models.nmf.overdispersed:OverdispersedPoisson",
    "gamma-poisson-tight": "sksvi.models.nmf.poisson:TightGammaPoisson",
    "gamma-process": "sksvi.models.nmf.model:GammaProcess",
    "linear": "sksvi.models.linear.glm:LinearModel",
    "mixture": "sksvi.models.mixture.model:MixtureModel",
    "network": "sksvi.models.network.model:NetworkModel",
    "mixed": "sksvi.models.mixed.glm:MixedModel",
    "mixed-two-predictors": "sksvi.models.mixed.two_predictors:MixedTwoPredictors",
    "two-predictors": "sksvi.models.linear.two_predictors:TwoPredictors",
    "sparse-gp": "sksvi.models.gp.sparse:SparseGPModel",
}
