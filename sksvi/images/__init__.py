"""Images by sparse dictionaries of patches: fill in missing pixels, remove noise.

Every patch of an image is a row of :class:`sksvi.BetaProcessFA`; overlapping reconstructions are averaged, each pixel
with the precision that its patch predicts it with. Masks are True where a pixel is **missing**, as in scikit-image, and
pixels that are NaN are missing too.
"""

from sksvi.images._patches import extract_patches, reconstruct
from sksvi.images._tasks import denoise, inpaint

__all__ = ["denoise", "extract_patches", "inpaint", "reconstruct"]
