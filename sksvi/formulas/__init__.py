"""Models from formulas: columns, smooths, effects of levels and offsets in the notation of R's lme4 and mgcv."""

from sksvi.formulas._design import FormulaTransformer
from sksvi.formulas._model import FormulaModel, from_formula

__all__ = ["FormulaModel", "FormulaTransformer", "from_formula"]
