"""Save fitted estimators and load them again, without pickle."""

from sksvi.persistence.archive import REGISTRY, VersionWarning, can_save, load, save

__all__ = ["REGISTRY", "VersionWarning", "can_save", "load", "save"]
